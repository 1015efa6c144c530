/** Tests embeddings and images with OpenAI's SDK. */
import { describe, expect, test } from 'bun:test';
import OpenAI, { toFile } from 'openai';
import { embeddings, images } from '../support/fake-upstream.ts';
import { channelOf, formatOf, mask, opaquePng } from '../support/images.ts';
import { fieldOf, rejectionOf, useSdkGateway } from '../support/sdk-gateway.ts';

const sdk = await useSdkGateway();
const { upstream } = sdk;
const client = new OpenAI(sdk.openAiOptions);

describe('embeddings.create of the OpenAI SDK', () => {
  test('transfers vectors as base64 and returns numbers', async () => {
    upstream.script('upstream-embed', embeddings({ dimensions: 4 }));
    const request = { model: 'acme/embed', input: ['first text', 'second text'] };
    const list = await client.embeddings.create(request);
    expect(sdk.lastBody.encoding_format).toBe('base64');
    expect(list.model).toBe('acme/embed');
    expect(list.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
      [0, 4],
      [1, 4],
    ]);
    const plain = await client.embeddings.create({
      ...request,
      encoding_format: 'float',
      user: 'a',
    });
    expect(list.data.map(({ embedding }) => embedding)).toEqual(
      plain.data.map(({ embedding }) => embedding.map(Math.fround)),
    );
    // The fake upstream counts words.
    expect(list.usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
  });

  test('returns similar vectors for similar texts with the demo model', async () => {
    const input = ['the cat sat on the mat', 'the cat sat on a mat', 'quarterly tax report'];
    const { data, usage } = await client.embeddings.create({ model: 'demo/embed', input });
    const [a = [], b = [], c = []] = data.map(({ embedding }) => embedding);
    const dotProduct = (x: number[], y: number[]) =>
      x.reduce((sum, v, index) => sum + v * (y[index] ?? 0), 0);
    expect(dotProduct(a, b)).toBeGreaterThan(dotProduct(a, c));
    expect(usage.prompt_tokens).toBeGreaterThan(0);
  });

  test('reports which input is invalid', async () => {
    const request = { model: 'acme/embed', input: ['a', ''] };
    const error = await rejectionOf(client.embeddings.create(request));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param: 'input[1]' });
    expect(upstream.requests).toHaveLength(0);
  });
});

describe('images.edit of the OpenAI SDK', () => {
  const source = opaquePng(4, 3);
  const png = (bytes: Uint8Array, name: string) => toFile(bytes, name, { type: 'image/png' });

  test('sends the image unchanged and the mask with inverted alpha', async () => {
    upstream.script('upstream-image', images({ usage: { prompt: 100, completion: 272 } }));
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
    const [sentImage, sentMask] = files.map(({ bytes }) => bytes);
    expect(Buffer.from(sentImage ?? []).equals(source)).toBe(true);
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

  test('sends several images', async () => {
    upstream.script('upstream-image', images());
    const image = [await png(source, 'a.png'), await png(opaquePng(2, 2), 'b.png')];
    await client.images.edit({ model: 'acme/image', prompt: 'join them', image });
    expect(upstream.requests[0]?.form?.files.map(({ field }) => field)).toEqual([
      'image[]',
      'image[]',
    ]);
  });

  test('receives model_capability_mismatch for a model without image edits', async () => {
    const image = await png(source, 'a.png');
    const request = { model: 'acme/no-edit', prompt: 'a', image };
    const error = await rejectionOf(client.images.edit(request));
    expect(error).toMatchObject({ status: 400, code: 'model_capability_mismatch' });
  });

  test('returns an image of the same size with the demo model', async () => {
    const result = await client.images.edit({
      model: 'demo/image',
      prompt: 'make it green',
      image: await png(opaquePng(40, 30), 'photo.png'),
      mask: await png(mask(Array.from({ length: 30 }, () => '#'.repeat(40))), 'mask.png'),
    });
    const output = Buffer.from(result.data?.[0]?.b64_json ?? '', 'base64');
    expect(formatOf(output)).toStartWith('40x30');
  });
});

describe('images.generate of the OpenAI SDK', () => {
  test('drops response_format, which OpenAI models reject', async () => {
    upstream.script('upstream-image', images());
    const request = { model: 'acme/image', prompt: 'a cat', quality: 'low' } as const;
    const result = await client.images.generate({ ...request, response_format: 'b64_json' });
    expect(result.data?.[0]?.b64_json).toStartWith('iVBORw0KGgo');
    expect(sdk.lastBody).toEqual({ ...request, model: 'upstream-image' });
  });

  test('returns an image of the requested size with the demo model', async () => {
    const request = { model: 'demo/image', prompt: 'a cat', size: '256x256' } as const;
    const result = await client.images.generate(request);
    const output = Buffer.from(result.data?.[0]?.b64_json ?? '', 'base64');
    expect(formatOf(output)).toStartWith('256x256');
  });
});
