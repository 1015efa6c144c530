/** POST /v1/images/edits and /v1/images/generations: requests, answers, and charges. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import {
  answerEarly,
  delayed,
  images,
  json,
  replay,
  status,
  status500,
} from '../support/fake-upstream.ts';
import {
  chargeOf,
  edit,
  fixture,
  form,
  formOf,
  gateway,
  generate,
  halfMask,
  imageOf,
  onePixel,
  type Parts,
  sentBody,
  sourceImage,
  startImageGateway,
  stopImageGateway,
  uploadsOnDisk,
  upstream,
} from '../support/image-gateway.ts';
import { channelOf, formatOf, mask, opaquePng } from '../support/images.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Converts base64 to its URL-safe alphabet. */
const toBase64Url = (base64: string) => base64.replaceAll('+', '-').replaceAll('/', '_');

beforeAll(startImageGateway);
afterAll(stopImageGateway);
afterEach(() => upstream.reset());

describe('an OpenAI image edit', () => {
  test('sends the image and the options and returns the answer under the alias', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 431, completion: 1364 } }));
    const reply = await edit({
      size: '1024x1536',
      quality: 'low',
      background: 'opaque',
      user: 'ann',
    });
    expect(imageOf(reply).b64_json).toBeString();
    expect(Math.abs(Number(reply.json.created) - Date.now() / 1000)).toBeLessThan(60);
    expect(reply.json).toMatchObject({
      model: 'test/image',
      output_format: 'png',
      usage: { prompt_tokens: 431, completion_tokens: 1364, total_tokens: 1795 },
    });
    expect(upstream.requests[0]?.path).toBe('/v1/images/edits');
    // Some providers reject a body without a content-length.
    const { 'content-length': length, 'transfer-encoding': chunked } =
      upstream.requests[0]?.headers ?? {};
    expect([Number(length), chunked]).toEqual([upstream.requests[0]?.bodyBytes ?? 0, undefined]);
    expect(form().fields).toEqual({
      model: ['gpt-image'],
      prompt: ['make it green'],
      size: ['1024x1536'],
      quality: ['low'],
      background: ['opaque'],
      user: ['ann'],
    });
    const [file, ...more] = form().files;
    expect(more).toEqual([]);
    expect([file?.field, file?.name, file?.type]).toEqual(['image', 'image.png', 'image/png']);
    expect(Buffer.from(file?.bytes ?? []).equals(sourceImage)).toBe(true);
    expect(reply.text).not.toContain('gpt-image');
    // 431 × 2 + 1,364 × 4
    const paid = { credits: 862 + 5_456, tokens: [431, 1364], estimated: false };
    expect(await chargeOf(reply)).toEqual({ ...paid, operation: 'images' });
    expect(reply.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test.each([
    ['hd', 'high'],
    ['standard', 'medium'],
  ])('maps the quality %s of DALL·E to %s', async (quality, sent) => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ quality }));
    expect(form().fields.quality).toEqual([sent]);
  });

  test.each(['rgba', 'rgba16', 'gray+alpha', 'interlaced'] as const)(
    'inverts the alpha channel of a mask (%s)',
    async (kind) => {
      upstream.script('gpt-image', images());
      imageOf(await edit({ mask: mask(halfMask, kind) }));
      const file = form().files.find(({ field }) => field === 'mask');
      expect([file?.name, file?.type]).toEqual(['mask.png', 'image/png']);
      expect(formatOf(file?.bytes ?? sourceImage)).toBe('4x3, 4 channels of 8 bits');
      expect(channelOf(file?.bytes ?? sourceImage, 3)).toEqual([
        [0, 0, 255, 255],
        [0, 0, 255, 255],
        [0, 0, 0, 0],
      ]);
    },
  );

  test("keeps the meaning of OpenAI's masks if the form says so", async () => {
    const channels = [];
    for (const [at, mask_edits] of ['transparent', 'opaque', ''].entries()) {
      upstream.script('gpt-image', images());
      imageOf(await edit({ mask: mask(['##..', '##..', '....']), mask_edits }));
      expect(form(at).fields).not.toHaveProperty('mask_edits');
      const file = form(at).files.find(({ field }) => field === 'mask');
      channels.push(channelOf(file?.bytes ?? sourceImage, 3)[0]);
    }
    expect(channels).toEqual([
      [255, 255, 0, 0],
      [0, 0, 255, 255],
      [0, 0, 255, 255],
    ]);
  });

  test('makes each pixel of a mask fully transparent or opaque, with a threshold of 50%', async () => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ mask: mask(['+-+-', '....', '####']) }));
    const file = form().files.find(({ field }) => field === 'mask');
    expect(channelOf(file?.bytes ?? sourceImage, 3)).toEqual([
      [0, 255, 0, 255],
      [255, 255, 255, 255],
      [0, 0, 0, 0],
    ]);
  });

  const other = opaquePng(9, 9);
  test.each<[string, Parts]>([
    ['under a repeated name', { 'image[]': [sourceImage, other] }],
    ['under numbered names, as PHP sends them', { 'image[0]': sourceImage, 'image[1]': other }],
  ])('accepts several images %s', async (_, imageParts) => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ image: [], ...imageParts }));
    expect(form().files.map(({ field }) => field)).toEqual(['image[]', 'image[]']);
    expect(Buffer.from(form().files[1]?.bytes ?? []).equals(other)).toBe(true);
  });

  test('treats an empty field as absent', async () => {
    const blank = { size: '', n: '', quality: '', background: '', output_format: '', stream: '' };
    upstream.script('gpt-image', images());
    imageOf(await edit({ ...blank, user: '', response_format: '' }));
    expect(form().fields).toEqual({ model: ['gpt-image'], prompt: ['make it green'] });
  });

  test('forwards unknown fields and drops the fields that the quirks name', async () => {
    upstream.script('odd-image', images());
    const options = {
      quality: 'high',
      input_fidelity: 'high',
      n: '1',
      response_format: 'b64_json',
    };
    const reply = await edit({ model: 'test/odd', ...options });
    imageOf(reply);
    // gpt-image models reject `response_format`.
    expect(form().fields).toEqual({
      model: ['odd-image'],
      prompt: ['make it green'],
      input_fidelity: ['high'],
    });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('quality');
  });

  test('is charged a flat price, or a price per image in addition to the tokens', async () => {
    upstream.script('flat-image', replay(JSON.stringify({ data: [{ b64_json: onePixel }] })));
    const flat = await edit({ model: 'test/flat' });
    expect(flat.json.usage).toMatchObject({ prompt_tokens: 0, completion_tokens: 0 });
    const paid = { credits: 40_000, tokens: [0, 0], estimated: false };
    expect(await chargeOf(flat)).toEqual({ ...paid, operation: 'images' });
    upstream.script('both-image', images({ usage: { prompt: 10, completion: 20 } }));
    const both = await edit({ model: 'test/both', image: [sourceImage, sourceImage] });
    // 10 × 2 + 20 × 4, 2 input images at 1,000, and an output image at 2,000.
    expect((await chargeOf(both)).credits).toBe(20 + 80 + 2_000 + 2_000);
  });

  test('removes the data URL prefix that some servers add to b64_json', async () => {
    const b64_json = `data:image/png;base64,${onePixel}`;
    upstream.script('flat-image', replay(JSON.stringify({ data: [{ b64_json }] })));
    expect(imageOf(await edit({ model: 'test/flat' }))).toEqual({ b64_json: onePixel });
  });

  test.each<[string, unknown]>([
    ['as a data URL', [{ url: `data:image/png;base64,${onePixel}` }]],
    ['as an object instead of a list', { b64_json: onePixel }],
    ['in URL-safe base64', [{ b64_json: toBase64Url(onePixel) }]],
  ])('reads an image that the server sends %s', async (_, data) => {
    upstream.script('flat-image', replay(JSON.stringify({ data })));
    const reply = await edit({ model: 'test/flat' });
    expect(imageOf(reply)).toEqual({ b64_json: onePixel });
    expect((await chargeOf(reply)).credits).toBe(40_000);
  });

  test('returns 502 free of charge if the image is not base64', async () => {
    upstream.script('flat-image', replay(JSON.stringify({ data: [{ b64_json: '<html>' }] })));
    const reply = await edit({ model: 'test/flat' });
    expect(reply.status).toBe(502);
    expect((await chargeOf(reply)).credits).toBe(0);
  });

  test('is charged an estimate if its model is priced by tokens and the provider reports no usage', async () => {
    upstream.script('gpt-image', replay(JSON.stringify({ data: [{ b64_json: onePixel }] })));
    const reply = await edit({ quality: 'low' });
    // 13 characters are 4 tokens. OpenAI's square image of low quality has 272 tokens.
    const paid = { credits: 4 * 2 + 272 * 4, tokens: [4, 272], estimated: true };
    expect(await chargeOf(reply)).toEqual({ ...paid, operation: 'images' });
  });

  test('is charged an estimate if the usage is implausible', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 50, completion: 900_000_000 } }));
    const reply = await edit({ quality: 'low' });
    const paid = { credits: 4 * 2 + 272 * 4, tokens: [4, 272], estimated: true };
    expect(await chargeOf(reply)).toEqual({ ...paid, operation: 'images' });
  });

  test.each([
    ['openai/image-edit-gpt-image-1.5-two-images.json', [431, 1364, 1795], '1024x1024'],
    ['openai/image-edit-gpt-image-2-size.json', [76, 120, 196], '1536x864'],
  ])('keeps the size and usage of %s', async (name, counts, size) => {
    upstream.script('gpt-image', replay(fixture(name)));
    const reply = await edit({});
    expect(imageOf(reply)).toEqual({ b64_json: onePixel });
    const [prompt_tokens, completion_tokens, total_tokens] = counts;
    const { input_tokens_details, output_tokens_details } = JSON.parse(fixture(name)).usage;
    expect(reply.json).toMatchObject({
      size,
      usage: {
        ...{ prompt_tokens, completion_tokens, total_tokens },
        ...{ input_tokens_details, output_tokens_details },
      },
    });
  });

  test("returns a provider's 400, and falls back after its 500", async () => {
    const bad = fixture('openai/image-edit-error-bad-image.json');
    upstream.script('gpt-image', replay(bad, { status: 400 }));
    const refused = await edit({});
    expect([refused.status, refused.error]).toEqual([
      400,
      {
        message: 'Invalid image data.',
        type: 'invalid_request_error',
        code: 'invalid_request_error',
      },
    ]);
    expect((await chargeOf(refused)).credits).toBe(0);
    upstream.script('bad-image', status500());
    upstream.script('good-image', images());
    imageOf(await edit({ model: 'test/spare', mask: mask(halfMask) }));
    // Both providers received the complete image and mask.
    const received = upstream.requests
      .slice(1)
      .map((entry) => entry.form?.files.map(({ bytes }) => bytes));
    expect(received).toHaveLength(2);
    expect(received[0]).toEqual(received[1]);
    expect(received[0]).toHaveLength(2);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('returns the error of a provider that answers before it has read the upload', async () => {
    upstream.script('/v1/images/edits', answerEarly(status(413, 'Images can have up to 4 MB.')));
    const large = Buffer.concat([sourceImage, Buffer.alloc(30 * 1024 * 1024)]);
    const reply = await edit({ image: large });
    expect([reply.status, reply.error.message]).toEqual([400, 'Images can have up to 4 MB.']);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test("waits longer than the provider's timeout for other requests", async () => {
    upstream.script('slow-image', delayed(600, images()));
    imageOf(await edit({ model: 'test/hasty' }));
    upstream.script('slow-image', delayed(600, images()));
    imageOf(await generate({ model: 'test/hasty', prompt: 'a cat' }));
  });

  test('is canceled upstream and deletes its upload if the client disconnects', async () => {
    upstream.script('gpt-image', delayed(30_000, images()));
    const client = new AbortController();
    const result = fetch(`${gateway.url}/v1/images/edits`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.keys.routing}` },
      body: formOf({ model: 'test/image', prompt: 'a', image: sourceImage }),
      signal: client.signal,
    }).catch(() => 'aborted');
    await upstream.until((requests) => requests.find(({ bodyAt }) => bodyAt !== null));
    client.abort();
    expect(await result).toBe('aborted');
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(await uploadsAreDeleted()).toBe(true);
  });

  test('deletes an upload that the client interrupts', async () => {
    const head = '--x\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n';
    const lines = [
      'POST /v1/images/edits HTTP/1.1',
      'host: tollgate',
      `authorization: Bearer ${gateway.keys.routing}`,
      'content-type: multipart/form-data; boundary=x',
      'content-length: 50000000',
    ];
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: gateway.port,
      socket: { data() {} },
    });
    socket.write(`${lines.join('\r\n')}\r\n\r\n${head}`);
    socket.write(Buffer.alloc(200_000, 7));
    await waitUntil(() => uploadsOnDisk().length > 0);
    socket.terminate();
    expect(await uploadsAreDeleted()).toBe(true);
    expect(upstream.requests).toHaveLength(0);
  });

  test('accepts a JPEG with 1 MB of metadata before its size', async () => {
    const frame = [0xff, 0xc0, 0, 17, 8, 0, 9, 0, 9, 3, 1, 0x22, 0, 2, 17, 1];
    const segment = Buffer.concat([Buffer.from([0xff, 0xeb, 0xff, 0xff]), Buffer.alloc(0xfffd)]);
    const photo = [Buffer.from([0xff, 0xd8]), ...Array(16).fill(segment), Buffer.from(frame)];
    upstream.script('gpt-image', images());
    imageOf(await edit({ image: Buffer.concat(photo) }));
    expect(form().files[0]?.type).toBe('image/jpeg');
  });

  test.each([
    ['jpeg', [0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 0, 9, 0, 9, 3, 1, 0x22, 0, 2, 17, 1]],
    ['webp', [...Buffer.from('RIFF\x1e\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0\x08\0\0\x08\0\0', 'latin1')]],
  ])('detects a %s by its bytes', async (kind, bytes) => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ image: Uint8Array.from(bytes) }));
    const [file] = form().files;
    expect([file?.name, file?.type]).toEqual([`image.${kind}`, `image/${kind}`]);
  });

  /** Waits until the gateway has noticed the disconnect. */
  async function uploadsAreDeleted(): Promise<boolean> {
    await waitUntil(() => uploadsOnDisk().length === 0);
    return true;
  }
});

describe('a Gemini image edit', () => {
  const parts = (at = 0): Record<string, unknown>[] => {
    const body = sentBody(at) as { contents: { role: string; parts: Record<string, unknown>[] }[] };
    return body.contents[0]?.parts ?? [];
  };

  test('sends the mask as another image and explains it in the prompt', async () => {
    upstream.script('gemini-image', replay(fixture('gemini/image-output.json')));
    const reply = await edit({
      model: 'test/gemini',
      mask: mask(halfMask),
      size: '1920x1080',
      quality: 'high',
      user: 'ann',
    });
    const [entry] = upstream.requests;
    expect(entry?.path).toBe('/v1beta/models/gemini-image:generateContent');
    const [prompt, ...inputImages] = parts();
    expect(prompt?.text).toStartWith('make it green\n\nThe last image is a mask');
    const data = inputImages.map(
      ({ inlineData }) => inlineData as { mimeType: string; data: string },
    );
    expect(data.map(({ mimeType }) => mimeType)).toEqual(['image/png', 'image/png']);
    expect(Buffer.from(data[0]?.data ?? '', 'base64').equals(sourceImage)).toBe(true);
    const sentMask = Buffer.from(data[1]?.data ?? '', 'base64');
    expect(formatOf(sentMask)).toBe('4x3, 1 channels of 8 bits');
    expect(channelOf(sentMask, 0)).toEqual([
      [255, 255, 0, 0],
      [255, 255, 0, 0],
      [255, 255, 255, 255],
    ]);
    expect(sentBody().generationConfig).toEqual({
      responseModalities: ['TEXT', 'IMAGE'],
      imageConfig: { aspectRatio: '16:9', imageSize: '2K' },
    });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('quality, user');
    // The recorded image is a JPEG and is reported as one.
    expect(String(imageOf(reply).b64_json)).toStartWith('/9j/');
    expect(reply.json).toMatchObject({
      model: 'test/gemini',
      output_format: 'jpeg',
      usage: { prompt_tokens: 5, completion_tokens: 1518, total_tokens: 1523 },
    });
    // 5 × 2 + 1,518 × 4
    expect((await chargeOf(reply)).credits).toBe(10 + 6_072);
  });

  test.each([
    ['1024x1024', { aspectRatio: '1:1' }],
    ['1024x1536', { aspectRatio: '2:3' }],
    ['3840x2160', { aspectRatio: '16:9', imageSize: '4K' }],
    ['auto', undefined],
  ])('requests the aspect ratio nearest to %s', async (size, imageConfig) => {
    upstream.script('gemini-image', replay(fixture('gemini/image-output.json')));
    imageOf(await generate({ model: 'test/gemini', prompt: 'a cat', size }));
    expect(sentBody().generationConfig).toEqual({
      responseModalities: ['TEXT', 'IMAGE'],
      ...(imageConfig ? { imageConfig } : {}),
    });
    expect(parts()).toEqual([{ text: 'a cat' }]);
  });

  test("returns the final image rather than a draft from the model's reasoning", async () => {
    const imagePart = (data: string, more: object = {}) => ({
      inlineData: { mimeType: 'image/png', data },
      ...more,
    });
    const parts = [
      { text: 'Here:' },
      imagePart('ZHJhZnQ=', { thought: true }),
      imagePart(onePixel),
    ];
    const candidates = [{ content: { parts }, finishReason: 'STOP' }];
    const usageMetadata = {
      promptTokenCount: 5,
      candidatesTokenCount: 1_290,
      thoughtsTokenCount: 100,
      totalTokenCount: 1_395,
    };
    upstream.script('gemini-image', json(200, { candidates, usageMetadata }));
    const reply = await generate({ model: 'test/gemini', prompt: 'a cat' });
    expect(imageOf(reply)).toEqual({ b64_json: onePixel });
    // 5 × 2 + (1,290 + 100 thinking tokens) × 4
    expect((await chargeOf(reply)).credits).toBe(10 + 5_560);
  });

  test('returns 400 for a filtered image and 502 for an answer without an image', async () => {
    const candidate = { content: { parts: [] }, finishReason: 'IMAGE_SAFETY' };
    upstream.script('gemini-image', json(200, { candidates: [candidate] }));
    const filtered = await generate({ model: 'test/gemini', prompt: 'a cat' });
    expect([filtered.status, filtered.error]).toEqual([
      400,
      {
        message: 'The provider declined to generate this image (IMAGE_SAFETY).',
        type: 'invalid_request_error',
        code: 'invalid_request_error',
      },
    ]);
    const textOnly = { content: { parts: [{ text: 'No.' }] }, finishReason: 'STOP' };
    upstream.script('gemini-image', json(200, { candidates: [textOnly] }));
    const failed = await generate({ model: 'test/gemini', prompt: 'a cat' });
    expect([failed.status, failed.error.code]).toEqual([502, 'upstream_error']);
    expect((await chargeOf(failed)).credits).toBe(0);
  });
});

describe('a SiliconFlow image edit', () => {
  test.each([
    ['test/kontext', 'image'],
    ['test/kontext-pro', 'input_image'],
  ])('of %s sends the image in the field %s', async (alias, field) => {
    // The gateway doesn't fetch private URLs, so the client gets the URL.
    const url = `${upstream.url}/image.png`;
    upstream.script('/v1/images/generations', json(200, { images: [{ url }], seed: 1 }));
    const reply = await edit({ model: alias, size: '1024x1024' });
    const body = sentBody();
    expect(body.prompt).toBe('make it green');
    expect(bytesIn(body[field]).equals(sourceImage)).toBe(true);
    expect(imageOf(reply)).toEqual({ url });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('size');
    // The price per image is 0.04 dollars.
    expect((await chargeOf(reply)).credits).toBe(40_000);
  });

  test.each([
    ['test/kontext', 'image', 'image2'],
    ['test/kontext-pro', 'input_image', 'input_image_2'],
  ])('of %s sends image and mask in the fields %s and %s', async (alias, ...fields) => {
    const [imageField, maskField] = fields;
    upstream.script('/v1/images/generations', json(200, { images: [{ b64_json: onePixel }] }));
    const options = { image2: 'https://images.invalid/other.png', seed: '7' };
    const reply = await edit({ model: alias, mask: mask(halfMask), ...options });
    const { [imageField]: sentImage, [maskField]: sentMask, ...rest } = sentBody();
    expect(rest).toEqual({
      model: expect.stringMatching(/^kontext-/),
      prompt:
        'make it green\n\nThe last image is a mask of the first one: change only what is white ' +
        'in the mask, and leave everything that is black in it exactly as it is.',
      seed: '7',
    });
    expect(bytesIn(sentImage).equals(sourceImage)).toBe(true);
    expect(formatOf(bytesIn(sentMask))).toBe('4x3, 1 channels of 8 bits');
    expect(channelOf(bytesIn(sentMask), 0)).toEqual([
      [255, 255, 0, 0],
      [255, 255, 0, 0],
      [255, 255, 255, 255],
    ]);
    expect(imageOf(reply)).toEqual({ b64_json: onePixel });
    // The mask replaces the client's second image.
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('image2');
    expect((await chargeOf(reply)).credits).toBe(40_000);
  });

  test('rejects 2 images with a mask', async () => {
    const reply = await edit({
      model: 'test/kontext',
      image: [sourceImage, sourceImage],
      mask: mask(halfMask),
    });
    expect([reply.status, reply.error.code]).toEqual([400, 'model_capability_mismatch']);
    expect(upstream.requests).toHaveLength(0);
  });

  function bytesIn(dataUrl: unknown): Buffer {
    const [head, data = ''] = String(dataUrl).split(',');
    expect(head).toBe('data:image/png;base64');
    return Buffer.from(data, 'base64');
  }
});

describe('image generation', () => {
  test('sends JSON and returns an answer in the same format as an edit', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 7, completion: 272 } }));
    const options = {
      prompt: 'a cat',
      size: '1024x1024',
      quality: 'low',
      output_format: 'webp',
      n: 1,
    };
    const reply = await generate({ model: 'test/image', ...options, moderation: 'low' });
    expect(imageOf(reply).b64_json).toBeString();
    expect(upstream.requests[0]?.path).toBe('/v1/images/generations');
    const { n: _, ...expected } = options;
    expect(sentBody()).toEqual({ model: 'gpt-image', ...expected, moderation: 'low' });
    expect((await chargeOf(reply)).credits).toBe(7 * 2 + 272 * 4);
  });

  test('keeps the URL in an xAI answer and adds the creation time', async () => {
    const url = 'https://images.invalid/cat.jpeg';
    const recorded = fixture('xai/image-generation.json').replace(/https:[^"]+/, url);
    upstream.script('flat-image', replay(recorded));
    const reply = await generate({ model: 'test/flat', prompt: 'a siamese cat' });
    expect(imageOf(reply)).toEqual({ url });
    expect(Number(reply.json.created)).toBeGreaterThan(1_700_000_000);
    expect((await chargeOf(reply)).credits).toBe(40_000);
  });

  test('tries the models of the request in order', async () => {
    upstream.script('flat-image', status(400, 'no such size'));
    upstream.script('gpt-image', images());
    const reply = await generate({ models: ['test/flat', 'test/image'], prompt: 'a cat' });
    imageOf(reply);
    expect(reply.json.model).toBe('test/image');
  });

  test('is replayed for requests with the same Idempotency-Key', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 7, completion: 272 } }));
    const path = '/v1/images/generations';
    const headers = { 'idempotency-key': 'cat-1' };
    const body = { model: 'test/image', prompt: 'a cat' };
    const first = await gateway.post(body, { path, headers });
    const { credits } = await chargeOf(first);
    const balance = await gateway.balance();
    const again = await gateway.post(body, { path, headers });
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    // The replay has the receipt of the first request, which was charged once.
    expect([await chargeOf(again), credits > 0]).toMatchObject([{ credits }, true]);
    expect(await gateway.balance()).toBe(balance);
    expect(upstream.requests).toHaveLength(1);
  });
});
