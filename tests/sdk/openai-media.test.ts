/** Embeddings and images with OpenAI's own library, which only got another base URL. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import OpenAI, { toFile } from 'openai';
import { isObject } from '../../src/core/json.ts';
import { embeddings, images, startFakeUpstream } from '../support/fake-upstream.ts';
import { channelOf, formatOf, mask, opaquePng } from '../support/images.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { failure, fieldOf } from './rig.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let client: OpenAI;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  const model = (id: string, name: string, features: string[], pricing: object) => ({
    id,
    name: id,
    input_modalities: ['text', 'image'],
    output_modalities: ['image'],
    features,
    endpoints: [{ provider: 'fake', model: name, pricing }],
  });
  gateway = await InProcessGateway.start({
    // The demo works offline beside real providers.
    ...{ demo: true },
    providers: { fake: { dialect: 'openai', base_url, api_key: 'sk-theirs-0123456789' } },
    models: [
      model('acme/embed', 'their-embed', ['embeddings'], { prompt: '1' }),
      model('acme/image', 'their-image', ['image_edit', 'image_generation'], {
        prompt: '2',
        completion: '4',
      }),
      model('acme/no-edit', 'other', ['image_generation'], { output_image: '0.04' }),
    ],
  });
  const { routing: apiKey } = gateway.keys;
  client = new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const lastBody = () => {
  const body = upstream.requests.at(-1)?.json;
  return isObject(body) ? body : {};
};

describe('embeddings', () => {
  test('come as base64 unseen, and are numbers to the application', async () => {
    upstream.script('their-embed', embeddings({ dimensions: 4 }));
    const wish = { model: 'acme/embed', input: ['first text', 'second text'] };
    const list = await client.embeddings.create(wish);
    expect(lastBody().encoding_format).toBe('base64');
    expect(list.model).toBe('acme/embed');
    expect(list.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
      [0, 4],
      [1, 4],
    ]);
    const plain = await client.embeddings.create({ ...wish, encoding_format: 'float', user: 'a' });
    expect(list.data.map(({ embedding }) => embedding)).toEqual(
      plain.data.map(({ embedding }) => embedding.map(Math.fround)),
    );
    // The fake counts words.
    expect(list.usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
  });

  test('of the demo are there offline; near texts are near', async () => {
    const input = ['the cat sat on the mat', 'the cat sat on a mat', 'quarterly tax report'];
    const { data, usage } = await client.embeddings.create({ model: 'demo/embed', input });
    const [a = [], b = [], c = []] = data.map(({ embedding }) => embedding);
    const near = (x: number[], y: number[]) => x.reduce((sum, v, at) => sum + v * (y[at] ?? 0), 0);
    expect(near(a, b)).toBeGreaterThan(near(a, c));
    expect(usage.prompt_tokens).toBeGreaterThan(0);
  });

  test('that are refused name the field', async () => {
    const wish = { model: 'acme/embed', input: ['a', ''] };
    const error = await failure(client.embeddings.create(wish));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param: 'input[1]' });
    expect(upstream.requests).toHaveLength(0);
  });
});

describe('an image edit', () => {
  const source = opaquePng(4, 3);
  const png = (bytes: Uint8Array, name: string) => toFile(bytes, name, { type: 'image/png' });

  test('sends its picture as it is and its mask inside out', async () => {
    upstream.script('their-image', images({ usage: { prompt: 100, completion: 272 } }));
    const rows = ['#..#', '....', '+--+'];
    const result = await client.images.edit({
      model: 'acme/image',
      prompt: 'make it green',
      image: await png(source, 'photo.png'),
      mask: await png(mask(rows), 'mask.png'),
      size: '1024x1024',
      n: 1,
    });
    const files = upstream.requests[0]?.form?.files ?? [];
    expect(files.map(({ field, type }) => [field, type])).toEqual([
      ['image', 'image/png'],
      ['mask', 'image/png'],
    ]);
    const [sentPicture, sentMask] = files.map(({ bytes }) => bytes);
    expect(Buffer.from(sentPicture ?? []).equals(source)).toBe(true);
    expect(formatOf(sentMask ?? source)).toBe('4x3, 4 channels of 8 bits');
    expect(channelOf(sentMask ?? source, 3)).toEqual([
      [0, 255, 255, 0],
      [255, 255, 255, 255],
      [0, 255, 255, 0],
    ]);
    expect(result.data?.[0]?.b64_json).toStartWith('iVBORw0KGgo');
    expect(fieldOf(result, 'model')).toBe('acme/image');
    expect(result.usage).toMatchObject({
      input_tokens: 100,
      output_tokens: 272,
      total_tokens: 372,
    });
    expect(fieldOf(result.usage, 'prompt_tokens')).toBe(100);
  });

  test('takes several pictures', async () => {
    upstream.script('their-image', images());
    const image = [await png(source, 'a.png'), await png(opaquePng(2, 2), 'b.png')];
    await client.images.edit({ model: 'acme/image', prompt: 'join them', image });
    expect(upstream.requests[0]?.form?.files.map(({ field }) => field)).toEqual([
      'image[]',
      'image[]',
    ]);
  });

  test('with a model that cannot edit is refused with a code', async () => {
    const image = await png(source, 'a.png');
    const wish = { model: 'acme/no-edit', prompt: 'a', image };
    const error = await failure(client.images.edit(wish));
    expect(error).toMatchObject({ status: 400, code: 'model_capability_mismatch' });
  });

  test('of the demo gives a picture as large as the one that was sent', async () => {
    const result = await client.images.edit({
      model: 'demo/image',
      prompt: 'make it green',
      image: await png(opaquePng(40, 30), 'photo.png'),
      mask: await png(mask(Array.from({ length: 30 }, () => '#'.repeat(40))), 'mask.png'),
    });
    const drawn = Buffer.from(result.data?.[0]?.b64_json ?? '', 'base64');
    expect(formatOf(drawn)).toStartWith('40x30');
  });
});

describe('an image from words', () => {
  test('is asked for without what OpenAI’s models refuse', async () => {
    upstream.script('their-image', images());
    const wish = { model: 'acme/image', prompt: 'a cat', quality: 'low' } as const;
    const result = await client.images.generate({ ...wish, response_format: 'b64_json' });
    expect(result.data?.[0]?.b64_json).toStartWith('iVBORw0KGgo');
    expect(lastBody()).toEqual({ ...wish, model: 'their-image' });
  });

  test('of the demo is a picture', async () => {
    const wish = { model: 'demo/image', prompt: 'a cat', size: '256x256' } as const;
    const result = await client.images.generate(wish);
    const drawn = Buffer.from(result.data?.[0]?.b64_json ?? '', 'base64');
    expect(formatOf(drawn)).toStartWith('256x256');
  });
});
