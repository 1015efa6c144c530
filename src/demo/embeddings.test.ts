import { afterAll, expect, test } from 'bun:test';
import { startDemoUpstream } from './server.ts';

const demo = startDemoUpstream();
afterAll(() => demo.stop());

async function readJson<Shape>(response: Response): Promise<Shape> {
  return (await response.json()) as Shape;
}

function post(body: object): Promise<Response> {
  return fetch(`${demo.url}/embeddings`, { method: 'POST', body: JSON.stringify(body) });
}

interface Embeddings {
  data: { index: number; embedding: number[] }[];
  usage: object;
}

async function embed(input: unknown, more: object = {}): Promise<number[][]> {
  const response = await post({ model: 'demo-embed', input, ...more });
  const { data } = await readJson<Embeddings>(response);
  expect(data.map((item) => item.index)).toEqual([...data.keys()]);
  return data.map((item) => item.embedding);
}

function dot(left: number[] = [], right: number[] = []): number {
  return left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
}

test('vectors have unit length for any text and dimensions', async () => {
  for (const dimensions of [1, 2, 256, 3_072]) {
    const vectors = await embed(['hello world', '!?', '漢字', 'a '.repeat(5_000)], { dimensions });
    expect(vectors.map((vector) => vector.length)).toEqual(Array(4).fill(dimensions));
    for (const vector of vectors) expect(dot(vector, vector)).toBeCloseTo(1, 5);
  }
});

test('identical texts have identical vectors, and texts that share words are more similar than others', async () => {
  const [car, same, bicycle, other] = await embed([
    'the red car',
    'The red car!',
    'the red bicycle',
    'quantum flux capacitors',
  ]);
  expect(dot(car, same)).toBeCloseTo(1, 5);
  expect(dot(car, bicycle)).toBeGreaterThan(0.4);
  expect(dot(car, other)).toBeLessThan(0.3);
});

test('Chinese texts that share characters are similar', async () => {
  const [one, two] = await embed(['我喜欢猫', '我喜欢狗']);
  expect(dot(one, two)).toBeGreaterThan(0.4);
});

test('base64 encodes the same numbers as little-endian float32', async () => {
  const [floats] = await embed('some words here');
  const [base64] = await embed('some words here', { encoding_format: 'base64' });
  const view = new DataView(Uint8Array.from(Buffer.from(String(base64), 'base64')).buffer);
  const decoded = Array.from({ length: 256 }, (_, index) => view.getFloat32(index * 4, true));
  expect(decoded).toEqual(floats ?? []);
});

test('a token array is one input, and an array of them is several', async () => {
  expect(await embed([1, 2, 3])).toHaveLength(1);
  const reply = await readJson<Embeddings>(
    await post({
      input: [
        [1, 2, 3],
        [4, 5],
      ],
    }),
  );
  expect(reply.data).toHaveLength(2);
  expect(reply.usage).toEqual({ prompt_tokens: 5, total_tokens: 5 });
});

test('tokens are counted per text', async () => {
  const reply = await readJson<Embeddings>(await post({ input: ['abcd', 'abcde'] }));
  expect(reply.usage).toEqual({ prompt_tokens: 3, total_tokens: 3 });
});

test('errors for invalid fields name the field', async () => {
  const cases: [object, string][] = [
    [{}, 'input'],
    [{ input: '' }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: ['ok', ''] }, 'input[1]'],
    [{ input: ['mixed', 3] }, 'input[1]'],
    [{ input: [[1.5]] }, 'input'],
    [{ input: Array(2_049).fill('x') }, 'input'],
    [{ input: 'x'.repeat(8_192 * 4 + 1) }, 'input'],
    [{ input: Array(1_001).fill('x'.repeat(1_200)) }, 'input'],
    [{ input: 'x', dimensions: 0 }, 'dimensions'],
    [{ input: 'x', dimensions: 3_073 }, 'dimensions'],
    [{ input: 'x', encoding_format: 'int8' }, 'encoding_format'],
  ];
  for (const [body, param] of cases) {
    const response = await post(body);
    const { error } = await readJson<{ error: { param: string } }>(response);
    expect([response.status, error.param]).toEqual([400, param]);
  }
});
