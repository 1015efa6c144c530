/**
 * Unreadable images, audio, and files, and content parts of unknown types. All client formats
 * reject them with the path of the part before anything is sent upstream or charged.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  const at = (dialect: string, base_url: string) => ({ dialect, base_url, api_key: 'their-key' });
  const names = ['plain', 'claude', 'open'];
  const [plain, claude, open] = names.map((provider) => ({ provider, model: 'up' }));
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      plain: at('openai', `${url}/v1`),
      claude: at('anthropic', url),
      open: at('openai-responses', `${url}/v1`),
    },
    models: [
      chatModel('acme/plain', [plain ?? {}]),
      chatModel('acme/claude', [claude ?? {}]),
      chatModel('acme/either', [plain ?? {}, { ...claude, priority: 1 }]),
      chatModel('acme/mixed', [plain ?? {}, { ...open, priority: 1 }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messagesWith = (part: object) => [{ role: 'user', content: [part] }];
/** The endpoint of each client format and the path of the only part in its request. */
const clients = {
  chat: {
    path: '/v1/chat/completions',
    partPath: 'messages[0].content[0]',
    body: (part: object) => ({ messages: messagesWith(part) }),
  },
  messages: {
    path: '/v1/messages',
    partPath: 'messages[0].content[0]',
    body: (part: object) => ({ max_tokens: 9, messages: messagesWith(part) }),
  },
  responses: {
    path: '/v1/responses',
    partPath: 'input[0].content[0]',
    body: (part: object) => ({ input: messagesWith(part) }),
  },
};
type Client = keyof typeof clients;

function send(client: Client, part: object, model = 'acme/plain') {
  const { path, body } = clients[client];
  return gateway.post({ model, ...body(part) }, { path });
}

async function expectRejected(client: Client, part: object, suffix: string, problem: string) {
  const reply = await send(client, part);
  const param = clients[client].partPath + suffix;
  expect([reply.status, reply.error.message]).toEqual([400, `${param} ${problem}`]);
  if (client !== 'messages') expect(reply.error.param).toBe(param);
  expect(upstream.requests).toHaveLength(0);
  expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
}

const image = (url: string) => ({ type: 'image_url', image_url: { url } });
const audio = (data: string) => ({ type: 'input_audio', input_audio: { data, format: 'wav' } });
const file = (fields: object) => ({ type: 'file', file: fields });
const inputPart = (type: string, fields: object) => ({ type: `input_${type}`, ...fields });
const block = (type: string, data: string, media_type = 'image/png') => ({
  ...{ type, source: { type: 'base64', media_type, data } },
});

const noBase64 = 'is not valid base64.';
const empty = 'is empty.';
const noImage = (type: string) => `must be an image, not ${type}.`;

describe('an unreadable part', () => {
  test.each<[Client, object, string, string]>([
    ['chat', file({}), '.file', 'must have file_data or file_id.'],
    ['chat', file({ file_data: '', file_id: null }), '.file', 'must have file_data or file_id.'],
    ['chat', file({ file_data: '%PDF-1.7' }), '.file.file_data', noBase64],
    ['chat', file({ file_data: 'data:application/pdf;base64,' }), '.file.file_data', empty],
    ['chat', image('data:image/png;base64,[object Object]'), '.image_url.url', noBase64],
    ['chat', image('data:text/html;base64,aGk='), '.image_url.url', noImage('text/html')],
    ['chat', image('data:,hello'), '.image_url.url', noImage('text/plain')],
    ['chat', image('data:audio/wav;base64,UklG'), '.image_url.url', noImage('audio/wav')],
    ['messages', block('image', 'aGk=', 'text/plain'), '.source.data', noImage('text/plain')],
    [
      'responses',
      inputPart('image', { image_url: 'data:video/mp4;base64,aGk=' }),
      '.image_url',
      noImage('video/mp4'),
    ],
    ['chat', audio(''), '.input_audio.data', empty],
    ['chat', audio('RIFF….WAVE'), '.input_audio.data', noBase64],
    ['messages', block('image', 'undefined!'), '.source.data', noBase64],
    ['messages', block('document', '\n', 'application/pdf'), '.source.data', empty],
    [
      'messages',
      { type: 'tool_result', tool_use_id: 'a', content: [block('image', '~')] },
      '.content[0].source.data',
      noBase64,
    ],
    ['responses', inputPart('file', {}), '', 'must have file_data, file_url, or file_id.'],
    ['responses', inputPart('file', { file_data: 'a.pdf' }), '.file_data', noBase64],
    ['responses', inputPart('image', {}), '', 'must have image_url or file_id.'],
    [
      'responses',
      inputPart('image', { image_url: 'data:image/png;base64,?' }),
      '.image_url',
      noBase64,
    ],
    ['responses', audio(' '), '.input_audio.data', empty],
  ])('is rejected with its path: %s %j', expectRejected);
});

describe('a readable part', () => {
  const bytes = Buffer.alloc(200, 'picture').toString('base64');
  const lines = bytes.replaceAll(/.{76}/g, '$&\n');
  test.each<[Client, object]>([
    ['chat', image(`data:image/png;base64,${lines}`)],
    ['chat', image('data:image/png;base64,aGk')],
    ['chat', image('data:application/octet-stream;base64,aGk=')],
    ['chat', image('data:;base64,iVBORw0KGgoAAAAN')],
    ['chat', audio(lines)],
    ['chat', audio(`data:;base64,${bytes}`)],
    ['chat', file({ file_data: bytes, filename: 'a.pdf' })],
    ['messages', block('image', lines)],
    ['responses', inputPart('file', { file_data: `data:application/pdf;base64,${bytes}` })],
  ])('is accepted in the formats that clients send: %s %j', async (client, part) => {
    expect((await send(client, part)).status).toBe(200);
    expect(upstream.requests).toHaveLength(1);
  });
});

describe('a message whose only part has an unknown type', () => {
  const upload = { type: 'novel_upload', id: 'u_1' };
  const hologram = { type: 'input_hologram', id: 'h_1' };
  const unsupported = (type: string) =>
    `has the type "${type}", which cannot be sent to this model.`;

  test('is rejected, because it would be empty without the part', async () => {
    await expectRejected('messages', upload, '', unsupported('novel_upload'));
    await expectRejected('responses', hologram, '', unsupported('input_hologram'));
  });

  test('is also rejected if the only input item has an unknown type', async () => {
    const input = [{ type: 'hologram_call', id: 'h_1' }];
    const post = (more: object[], instructions = 'Be brief.') =>
      gateway.post(
        { model: 'acme/plain', instructions, input: [...input, ...more] },
        { path: '/v1/responses' },
      );
    const reply = await post([]);
    expect([reply.status, reply.error.param]).toEqual([400, 'input[0]']);
    expect(reply.error.message).toBe(`input[0] ${unsupported('hologram_call')}`);
    expect(upstream.requests).toHaveLength(0);
    expect((await post([{ role: 'user', content: 'Hello' }])).status).toBe(200);
  });

  test("is sent only to providers that use the client's format, whatever their priority", async () => {
    for (const model of ['acme/claude', 'acme/either']) {
      upstream.reset();
      expect((await send('messages', upload, model)).status).toBe(200);
      expect(upstream.requests.map(({ json }) => json)).toMatchObject([
        { messages: [{ content: [upload] }] },
      ]);
    }
  });

  test('is sent as text if the part has a text', async () => {
    for (const client of ['messages', 'responses'] as const) {
      upstream.reset();
      const reply = await send(client, { type: 'quotation', text: 'To be.' });
      expect(reply.status).toBe(200);
      expect(upstream.requests[0]?.json).toMatchObject({ messages: [{ content: 'To be.' }] });
    }
  });
});

describe('an OpenAI compaction item', () => {
  const path = '/v1/responses';
  const hello = { role: 'user', content: 'Hello' };
  const compacted = { type: 'compaction', id: 'cmp_1', encrypted_content: 'c2hvcnQ=' };
  const trigger = { type: 'compaction_trigger' };

  test.each([
    ['input[0]', 'compaction', [compacted, hello]],
    ['input[1]', 'compaction_trigger', [hello, trigger]],
  ])('is rejected if no provider supports it: %s, %s', async (param, type, input) => {
    const { status, error } = await gateway.post({ model: 'acme/plain', input }, { path });
    expect([status, error.param]).toEqual([400, param]);
    expect(error.message).toContain(`has the type "${type}"`);
    expect(upstream.requests).toHaveLength(0);
  });

  test('is sent to a provider that supports it', async () => {
    const usage = { input_tokens: 3, output_tokens: 1, total_tokens: 4 };
    const answer = {
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      output: [compacted],
      usage,
    };
    upstream.script('up', json(200, answer));
    const input = [hello, trigger];
    const { status, json: reply } = await gateway.post({ model: 'acme/mixed', input }, { path });
    expect([status, reply.output]).toEqual([200, [compacted]]);
    expect(upstream.requests.map(({ json: sent }) => sent)).toMatchObject([{ input }]);
  });
});

test('ignores an empty provider.only', async () => {
  const body = { model: 'acme/plain', messages: [{ role: 'user', content: 'Hello' }] };
  expect((await gateway.post({ ...body, provider: { only: [] } })).status).toBe(200);
  expect((await gateway.post({ ...body, provider: { only: ['claude'] } })).status).toBe(404);
});
