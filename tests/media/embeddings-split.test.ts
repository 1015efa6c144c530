/** Embeddings from a server whose batch limit is lower than its configured limit. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { EmbeddingServer } from '../support/embedding-server.ts';
import { InProcessGateway } from '../support/in-process.ts';

const server = new EmbeddingServer();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (quirks: object) => ({
    ...{ dialect: 'cohere', base_url: `${server.url}/v2`, api_key: 'upstream-key', quirks },
  });
  const model = (id: string, provider: string) => ({
    ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'] },
    features: ['embeddings'],
    endpoints: [{ provider, model: 'tei', pricing: { prompt: '1', completion: '0' } }],
  });
  gateway = await InProcessGateway.start({
    providers: { plain: at({}), batched: at({ embedding_batch: 96 }) },
    models: [model('acme/vectors', 'plain'), model('acme/batched', 'batched')],
  });
});
afterAll(async () => {
  await gateway.stop();
  await server.stop();
});
afterEach(() => server.reset());

const texts = (count: number) => Array.from({ length: count }, (_, index) => `number ${index}`);
const embed = (input: readonly string[], model = 'acme/vectors') =>
  gateway.post({ model, input }, { path: '/v1/embeddings' });
const sizes = () => server.calls.map((call) => call.texts.length);

test('halves the batch until the server accepts it, and charges the ordered vectors once', async () => {
  server.textsMax = 16;
  server.tokensPerText = 3;
  const reply = await embed(texts(70));
  const vectors = texts(70).map((text, index) => [index, text.length]);
  expect(reply.json.data).toMatchObject(vectors.map((embedding) => ({ embedding })));
  expect(reply.json.usage).toEqual({ prompt_tokens: 210, total_tokens: 210 });
  const expectedSizes = [70, 35, 35, 18, 18, 18, 16, ...Array<number>(7).fill(9), 7];
  expect(sizes().toSorted((a, b) => b - a)).toEqual(expectedSizes);
  const { charges, attempts } = await gateway.record(reply.requestId);
  expect(charges.modelCharge).toBe(210);
  expect(attempts.map(({ outcome }) => outcome)).toEqual(['answered']);
});

test.each([
  [400, 'Too many tokens overall, split into more batches.'],
  [400, 'Too many tokens in batch. Max is 16384 got 17555'],
  [400, 'Too many inputs in request.'],
  [400, 'Value error, batch size is invalid, it should not be larger than 10.: input.contents'],
  [400, 'Requested 375703 tokens, max 300000 tokens per request'],
  [422, 'batch size 4 > maximum allowed batch size 2'],
])('halves the batch after a %d: %s', async (status, message) => {
  server.nextResponse = Response.json({ message }, { status });
  // Use different texts each time, because repeated texts would be answered from the cache.
  const reply = await embed(texts(4).map((text) => `${message} ${text}`));
  expect([reply.status, sizes()]).toEqual([200, [4, 2, 2]]);
  expect(reply.json.data).toMatchObject([0, 1, 2, 3].map((index) => ({ index })));
});

test('does not halve the batch after another error', async () => {
  server.nextResponse = Response.json({ message: 'model is not for texts' }, { status: 400 });
  expect((await embed(texts(4).map((text) => `again ${text}`))).status).toBe(400);
  expect(sizes()).toEqual([4]);
});

test.each(['acme/vectors', 'acme/batched'])(
  'stops when the server rejects a single text: %s',
  async (model) => {
    server.textsMax = 0;
    const reply = await embed(texts(5), model);
    expect(reply.status).toBe(400);
    expect(reply.error.message).toContain('maximum allowed batch size 0');
    // 5, then 3 and 2, then 2, 2, and 1, then 4 single texts.
    expect(sizes()).toEqual([5, 3, 2, 2, 2, 1, 1, 1, 1, 1]);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  },
);
