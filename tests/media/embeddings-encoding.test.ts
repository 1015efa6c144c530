/** Embeddings at a server that refuses the encoding which OpenAI's libraries ask for unasked. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { embeddings, json, startFakeUpstream } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  gateway = await InProcessGateway.start({
    providers: { own: { dialect: 'openai', base_url, api_key: 'their-key' } },
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
const asked = () => upstream.requests.map(({ json: body }) => body);

/** Half, minus a quarter: as 32-bit floats 0x3f000000 and 0xbe800000, the last byte first. */
const numbers = json(200, {
  data: [{ index: 0, embedding: [0.5, -0.25] }],
  usage: { prompt_tokens: 5, total_tokens: 5 },
});
const packed = 'AAAAPwAAgL4=';

const inMessage = {
  message: "vertex_ai does not support parameters: {'encoding_format': 'base64'}",
};
const inParam = { message: 'Input should be float', param: 'encoding_format' };

test.each([
  ['in its message', inMessage],
  ['as the field at fault', inParam],
])('is asked for numbers, and the client gets base64: named %s', async (how, error) => {
  upstream.script('vectors', [json(400, { error }), numbers]);
  const reply = await embed(`a text ${how}`, 'base64');
  expect(reply.json.data).toEqual([{ object: 'embedding', index: 0, embedding: packed }]);
  expect(asked()).toMatchObject([{ encoding_format: 'base64' }, { encoding_format: 'float' }]);
  expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(5);
});

test('is not asked again when it refuses something else, or numbers too', async () => {
  upstream.script('vectors', [json(400, { error: { message: 'too long' } }), embeddings()]);
  expect((await embed('another text', 'base64')).status).toBe(400);
  upstream.script('vectors', [json(400, { error: inMessage }), embeddings()]);
  expect((await embed('a third text', 'float')).status).toBe(400);
  expect(upstream.requests).toHaveLength(2);
});
