/** Embeddings at a server that takes fewer texts at once than its operator told us. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { EmbeddingServer } from '../support/embedding-server.ts';
import { InProcessGateway } from '../support/in-process.ts';

const server = new EmbeddingServer();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (quirks: object) => ({
    ...{ dialect: 'cohere', base_url: `${server.url}/v2`, api_key: 'their-key', quirks },
  });
  const model = (id: string, provider: string) => ({
    ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'] },
    features: ['embeddings'],
    endpoints: [{ provider, model: 'tei', pricing: { prompt: '1', completion: '0' } }],
  });
  gateway = await InProcessGateway.start({
    providers: { plain: at({}), told: at({ embedding_batch: 96 }) },
    models: [model('acme/vectors', 'plain'), model('acme/told', 'told')],
  });
});
afterAll(async () => {
  await gateway.stop();
  await server.stop();
});
afterEach(() => server.reset());

const texts = (count: number) => Array.from({ length: count }, (_, at) => `number ${at}`);
const embed = (input: readonly string[], model = 'acme/vectors') =>
  gateway.post({ model, input }, { path: '/v1/embeddings' });
const sizes = () => server.calls.map((call) => call.texts.length);

test('gets them in halves until it takes them, each in its place and charged once', async () => {
  server.textsMax = 16;
  server.tokensPerText = 3;
  const reply = await embed(texts(70));
  const vectors = texts(70).map((text, at) => [at, text.length]);
  expect(reply.json.data).toMatchObject(vectors.map((embedding) => ({ embedding })));
  expect(reply.json.usage).toEqual({ prompt_tokens: 210, total_tokens: 210 });
  const asked = [70, 35, 35, 18, 18, 18, 16, ...Array<number>(7).fill(9), 7];
  expect(sizes().toSorted((a, b) => b - a)).toEqual(asked);
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
])('that says so with %d gets halves, too: %s', async (status, message) => {
  server.refusal = Response.json({ message }, { status });
  // Other texts each time: the same would come from the cache.
  const reply = await embed(texts(4).map((text) => `${message} ${text}`));
  expect([reply.status, sizes()]).toEqual([200, [4, 2, 2]]);
  expect(reply.json.data).toMatchObject([0, 1, 2, 3].map((index) => ({ index })));
});

test('that refuses them for another reason is asked once', async () => {
  server.refusal = Response.json({ message: 'model is not for texts' }, { status: 400 });
  expect((await embed(texts(4).map((text) => `again ${text}`))).status).toBe(400);
  expect(sizes()).toEqual([4]);
});

test.each(['acme/vectors', 'acme/told'])(
  'that refuses a text alone is not asked for less of it: %s',
  async (model) => {
    server.textsMax = 0;
    const reply = await embed(texts(5), model);
    expect(reply.status).toBe(400);
    expect(reply.error.message).toContain('maximum allowed batch size 0');
    // Five, then three and two, then two and two and one, then four of the five alone.
    expect(sizes()).toEqual([5, 3, 2, 2, 2, 1, 1, 1, 1, 1]);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  },
);
