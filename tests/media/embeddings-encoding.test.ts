/** Embeddings from a server that rejects base64, which OpenAI's libraries request by default. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { embeddings, json, startFakeUpstream } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  gateway = await InProcessGateway.start({
    providers: { own: { dialect: 'openai', base_url, api_key: 'upstream-key' } },
    models: [
      {
        ...{ id: 'acme/vectors', name: 'Vectors', features: ['embeddings'] },
        ...{ input_modalities: ['text'], output_modalities: ['text'] },
        endpoints: [{ provider: 'own', model: 'vectors', pricing: { prompt: '1' } }],
      },
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
afterEach(() => upstream.reset());

const embed = (input: string, encoding_format: string) =>
  gateway.post({ model: 'acme/vectors', input, encoding_format }, { path: '/v1/embeddings' });
const sentBodies = () => upstream.requests.map(({ json: body }) => body);

/** 0.5 and -0.25 are the 32-bit floats 0x3f000000 and 0xbe800000, in little-endian base64. */
const floats = json(200, {
  data: [{ index: 0, embedding: [0.5, -0.25] }],
  usage: { prompt_tokens: 5, total_tokens: 5 },
});
const base64 = 'AAAAPwAAgL4=';

const inMessage = {
  message: "vertex_ai does not support parameters: {'encoding_format': 'base64'}",
};
const inParam = { message: 'Input should be float', param: 'encoding_format' };

test.each([
  ['message', inMessage],
  ['param', inParam],
])(
  'requests floats and encodes them as base64 if the error names the encoding in its %s',
  async (field, error) => {
    upstream.script('vectors', [json(400, { error }), floats]);
    const reply = await embed(`a text ${field}`, 'base64');
    expect(reply.json.data).toEqual([{ object: 'embedding', index: 0, embedding: base64 }]);
    expect(sentBodies()).toMatchObject([
      { encoding_format: 'base64' },
      { encoding_format: 'float' },
    ]);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(5);
  },
);

test('does not retry after another error or if the client requested floats', async () => {
  upstream.script('vectors', [json(400, { error: { message: 'too long' } }), embeddings()]);
  expect((await embed('another text', 'base64')).status).toBe(400);
  upstream.script('vectors', [json(400, { error: inMessage }), embeddings()]);
  expect((await embed('a third text', 'float')).status).toBe(400);
  expect(upstream.requests).toHaveLength(2);
});
