/**
 * A URL in a request must not point into a private network if an upstream would fetch it. URLs that
 * nobody fetches pass unchanged.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  const api_key = 'upstream-key';
  const pricing = { prompt: '1', completion: '2' };
  const media = (id: string, feature: string, output: string) => ({
    ...{ id, name: id, input_modalities: ['text'], output_modalities: [output] },
    ...{ features: [feature], endpoints: [{ provider: 'other', model: 'up', pricing }] },
  });
  gateway = await InProcessGateway.start({
    providers: {
      claude: { dialect: 'anthropic', base_url: url, api_key },
      answers: { dialect: 'openai-responses', base_url: `${url}/v1`, api_key },
      other: { dialect: 'openai', base_url: `${url}/v1`, api_key },
    },
    models: [
      ...['claude', 'answers', 'other'].map((provider) =>
        chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
      ),
      media('acme/painter', 'image_generation', 'image'),
      media('acme/vectors', 'embeddings', 'text'),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('answers-up', replay(readFixture('openai/responses-tool-final.json')));
});

const user = (...content: object[]) => ({ role: 'user', content });
const text = { type: 'text', text: 'Look.' };
const chat = (more: object) => ({ model: 'acme/other', messages: [user(text)], ...more });
const message = (...content: object[]) => ({
  ...{ model: 'acme/claude', max_tokens: 9 },
  messages: [user(text, ...content)],
});
const response = (...input: object[]) => ({ model: 'acme/answers', input: [...input, user()] });

type UrlField = [path: string, param: string, write: (url: string) => object];
const chats = '/v1/chat/completions';
const messages = '/v1/messages';
const responses = '/v1/responses';

const urlFields: readonly UrlField[] = [
  [
    chats,
    'messages[0].content[0].file.file_data',
    (file_data) => chat({ messages: [user({ type: 'file', file: { file_data } })] }),
  ],
  [
    chats,
    'messages[0].content[0].input_audio.data',
    (data) =>
      chat({ messages: [user({ type: 'input_audio', input_audio: { data, format: 'mp3' } })] }),
  ],
  [
    responses,
    'input[0].content[0].input_audio.data',
    (data) => response(user({ type: 'input_audio', input_audio: { data, format: 'mp3' } })),
  ],
  [chats, 'video_url.url', (url) => chat({ video_url: { url } })],
  [chats, 'mcp.servers[0]', (url) => chat({ mcp: { servers: [url] } })],
  [chats, 'document_url', (document_url) => chat({ document_url })],
  [
    messages,
    'messages[0].content[1].source.url',
    (url) => message({ type: 'document', source: { type: 'url', url } }),
  ],
  [
    messages,
    'messages[0].content[1].content[0].source.url',
    (url) =>
      message({
        ...{ type: 'tool_result', tool_use_id: 'toolu_1' },
        content: [{ type: 'document', source: { type: 'url', url } }],
      }),
  ],
  [
    messages,
    'messages[0].content[1].source.url',
    (url) => message({ type: 'hologram', source: { type: 'url', url } }),
  ],
  [
    messages,
    'mcp_servers[0].url',
    (url) => ({ ...message(), mcp_servers: [{ type: 'url', url, name: 'a' }] }),
  ],
  [
    '/v1/messages/count_tokens',
    'messages[0].content[1].source.url',
    (url) => message({ type: 'document', source: { type: 'url', url } }),
  ],
  [
    responses,
    'input[0].content[0].file_url',
    (file_url) => response(user({ type: 'input_file', file_url })),
  ],
  [
    responses,
    'input[0].output[0].file_url',
    (file_url) =>
      response({
        ...{ type: 'function_call_output', call_id: 'call_1' },
        output: [{ type: 'input_file', file_url }],
      }),
  ],
  [
    responses,
    'input[0].output.image_url',
    (image_url) =>
      response({
        ...{ type: 'computer_call_output', call_id: 'call_1' },
        output: { type: 'computer_screenshot', image_url },
      }),
  ],
  [
    responses,
    'input[0].content[0].video_url',
    (video_url) => response(user({ type: 'input_video', video_url })),
  ],
  [
    responses,
    'tools[0].server_url',
    (server_url) => ({
      ...response(),
      tools: [{ type: 'mcp', server_label: 'a', server_url }],
    }),
  ],
  [
    responses,
    'input[0].tools[0].server_url',
    (server_url) =>
      response({
        type: 'additional_tools',
        tools: [{ type: 'mcp', server_label: 'a', server_url }],
      }),
  ],
  [
    responses,
    'tools[0].input_image_mask.image_url',
    (image_url) => ({
      ...response(),
      tools: [{ type: 'novel_painter', input_image_mask: { image_url } }],
    }),
  ],
  [
    '/v1/images/generations',
    'image[0]',
    (url) => ({ model: 'acme/painter', prompt: 'A cat', image: [url] }),
  ],
  [
    '/v1/embeddings',
    'image_url',
    (image_url) => ({ model: 'acme/vectors', input: 'A cat', image_url }),
  ],
];

const privateUrls = ['http://169.254.169.254/latest', 'http://localhost/a', 'HTTP://10.0.0.1/a'];

describe.each(urlFields)('%s: %s', (path, param, write) => {
  test('rejects private addresses', async () => {
    for (const url of privateUrls) {
      const reply = await gateway.post(write(url), { path });
      expect([url, reply.status]).toEqual([url, 400]);
      expect(reply.error.message).toStartWith(`${param} `);
    }
    expect(upstream.requests).toEqual([]);
  });

  test('rejects schemes other than http and https, and leading spaces', async () => {
    for (const url of ['file:///etc/passwd', 'gopher://example.com/a', ' http://127.0.0.1/']) {
      const reply = await gateway.post(write(url), { path });
      expect([url, reply.status]).toEqual([url, 400]);
    }
    expect(upstream.requests).toEqual([]);
  });

  test('accepts a public URL and passes it to the upstream', async () => {
    const reply = await gateway.post(write('https://public.example/a'), { path });
    expect(reply.status).toBe(200);
    expect(JSON.stringify(upstream.requests.at(-1)?.json)).toContain('https://public.example/a');
  });
});

const imageFields: readonly UrlField[] = [
  [
    chats,
    'messages[0].content[0].image_url.url',
    (url) => chat({ messages: [user({ type: 'image_url', image_url: { url } })] }),
  ],
  [
    messages,
    'messages[0].content[1].source.url',
    (url) => message({ type: 'image', source: { type: 'url', url } }),
  ],
  [
    responses,
    'input[0].content[0].image_url',
    (image_url) => response(user({ type: 'input_image', image_url })),
  ],
];

describe('image URLs', () => {
  const notations = [
    'http://127.0.0.1:8080/a.png',
    'http://2130706433/a.png',
    'HTTPS://localhost/a.png',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::ffff:7f00:1]/a.png',
    'http://metadata.google.internal/',
    'http://gpu-1:8000/a.png',
    'http://public.example\\@127.0.0.1/a.png',
    'http://public.example:6379/a.png',
  ];

  test.each(imageFields)('%s rejects private addresses in %s', async (path, param, write) => {
    for (const url of notations) {
      const reply = await gateway.post(write(url), { path });
      expect([url, reply.status]).toEqual([url, 400]);
      // Anthropic's errors have no `param`.
      expect(reply.error.param).toBe(path === messages ? undefined : param);
    }
    expect(upstream.requests).toEqual([]);
  });

  test.each(imageFields)('%s passes a public URL to the upstream: %s', async (path, _, write) => {
    const reply = await gateway.post(write('https://public.example/a.png'), { path });
    expect(reply.status).toBe(200);
    expect(JSON.stringify(upstream.requests.at(-1)?.json)).toContain(
      'https://public.example/a.png',
    );
  });
});

describe('URLs that no upstream fetches pass unchanged', () => {
  const url = 'http://localhost:3000/';
  const parameters = {
    type: 'object',
    properties: { image_url: { type: 'string', default: url } },
  };
  const toolUse = { type: 'tool_use', id: 'toolu_1', name: 'open', input: { url, image_url: url } };

  test.each<[string, string, object]>([
    ['in the text of a message', chats, chat({ messages: [user({ type: 'text', text: url })] })],
    [
      'in the schema of a tool',
      chats,
      chat({ tools: [{ type: 'function', function: { name: 'open', parameters } }] }),
    ],
    ['as the app URL in metadata', chats, chat({ metadata: { app_url: url, url } })],
    ['as other metadata', chats, chat({ metadata: { file: 'file:///a', server_url: url } })],
    [
      'in documents and their sources',
      chats,
      chat({ documents: ['https://a.example\nis a page', { url, text: 'A page' }] }),
    ],
    ['in text that starts like a URL scheme', chats, chat({ file: 'File: report.txt' })],
    [
      'in the input of an MCP tool call',
      messages,
      {
        ...message(),
        messages: [
          user(text),
          { role: 'assistant', content: [{ ...toolUse, type: 'mcp_tool_use', server_name: 'a' }] },
          user(text),
        ],
      },
    ],
    [
      'as the source of a web search',
      responses,
      response({
        ...{ type: 'web_search_call', id: 'ws_1' },
        action: { type: 'search', sources: [{ type: 'url', url: 'https://a.example:81/b c' }] },
      }),
    ],
    [
      'in the input and the result of a tool call',
      messages,
      {
        ...message(),
        messages: [
          user(text),
          { role: 'assistant', content: [toolUse] },
          user({ type: 'tool_result', tool_use_id: 'toolu_1', content: url }),
        ],
      },
    ],
    [
      'as the source of a search result',
      messages,
      message({ type: 'search_result', source: url, title: 'a', content: [text] }),
    ],
    [
      'in the bytes of a screenshot',
      responses,
      response({
        ...{ type: 'computer_call_output', call_id: 'call_1' },
        output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,AAAA' },
      }),
    ],
    [
      'as a page that a search opened',
      responses,
      response({ type: 'web_search_call', id: 'ws_1', action: { type: 'open_page', url } }),
    ],
  ])('%s', async (_, path, body) => {
    expect((await gateway.post(body, { path })).status).toBe(200);
    expect(upstream.requests).toHaveLength(1);
  });
});
