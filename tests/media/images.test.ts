/** POST /v1/images/edits and /generations: what providers and clients get, and what it costs. */
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
  charged,
  edit,
  fixture,
  form,
  formOf,
  gateway,
  generate,
  half,
  imageOf,
  uploadsOnDisk,
  onePixel,
  type Parts,
  sent,
  source,
  startImageGateway,
  stopImageGateway,
  upstream,
} from '../support/image-gateway.ts';
import { channelOf, formatOf, mask, opaquePng } from '../support/images.ts';

/** Base64 as it is written in addresses. */
const inAddress = (base64: string) => base64.replaceAll('+', '-').replaceAll('/', '_');

beforeAll(startImageGateway);
afterAll(stopImageGateway);
afterEach(() => upstream.reset());

describe('an edit at an OpenAI-style provider', () => {
  test('carries the picture and the wishes, and comes back under our names', async () => {
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
    // Not every provider takes a body of unknown length.
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
    expect(Buffer.from(file?.bytes ?? []).equals(source)).toBe(true);
    expect(reply.text).not.toContain('gpt-image');
    // 431 tokens at 2 and 1,364 at 4.
    const paid = { credits: 862 + 5_456, tokens: [431, 1364], estimated: false };
    expect(await charged(reply)).toEqual({ ...paid, operation: 'images' });
    expect(reply.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test.each(['rgba', 'rgba16', 'grey+alpha', 'interlaced'] as const)(
    'turns a mask (%s) inside out: what was opaque is transparent',
    async (kind) => {
      upstream.script('gpt-image', images());
      imageOf(await edit({ mask: mask(half, kind) }));
      const file = form().files.find(({ field }) => field === 'mask');
      expect([file?.name, file?.type]).toEqual(['mask.png', 'image/png']);
      expect(formatOf(file?.bytes ?? source)).toBe('4x3, 4 channels of 8 bits');
      expect(channelOf(file?.bytes ?? source, 3)).toEqual([
        [0, 0, 255, 255],
        [0, 0, 255, 255],
        [0, 0, 0, 0],
      ]);
    },
  );

  test('decides at half what is neither opaque nor transparent', async () => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ mask: mask(['+-+-', '....', '####']) }));
    const file = form().files.find(({ field }) => field === 'mask');
    expect(channelOf(file?.bytes ?? source, 3)).toEqual([
      [0, 255, 0, 255],
      [255, 255, 255, 255],
      [0, 0, 0, 0],
    ]);
  });

  const other = opaquePng(9, 9);
  test.each<[string, Parts]>([
    ['under one name', { 'image[]': [source, other] }],
    ['under numbers, as PHP writes a list', { 'image[0]': source, 'image[1]': other }],
  ])('takes several pictures %s', async (_, pictures) => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ image: [], ...pictures }));
    expect(form().files.map(({ field }) => field)).toEqual(['image[]', 'image[]']);
    expect(Buffer.from(form().files[1]?.bytes ?? []).equals(other)).toBe(true);
  });

  test('takes fields that were left blank as left out', async () => {
    const blank = { size: '', n: '', quality: '', background: '', output_format: '', stream: '' };
    upstream.script('gpt-image', images());
    imageOf(await edit({ ...blank, user: '', response_format: '' }));
    expect(form().fields).toEqual({ model: ['gpt-image'], prompt: ['make it green'] });
  });

  test('passes on what it does not know, and leaves out what the provider refuses', async () => {
    upstream.script('odd-image', images());
    const wish = { quality: 'high', input_fidelity: 'high', n: '1', response_format: 'b64_json' };
    const reply = await edit({ model: 'test/odd', ...wish });
    imageOf(reply);
    // gpt-image models refuse `response_format`.
    expect(form().fields).toEqual({
      model: ['odd-image'],
      prompt: ['make it green'],
      input_fidelity: ['high'],
    });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('quality');
  });

  test('costs a flat price, or one for each picture in and out beside the tokens', async () => {
    upstream.script('flat-image', replay(JSON.stringify({ data: [{ b64_json: onePixel }] })));
    const flat = await edit({ model: 'test/flat' });
    expect(flat.json.usage).toMatchObject({ prompt_tokens: 0, completion_tokens: 0 });
    const paid = { credits: 40_000, tokens: [0, 0], estimated: false };
    expect(await charged(flat)).toEqual({ ...paid, operation: 'images' });
    upstream.script('both-image', images({ usage: { prompt: 10, completion: 20 } }));
    const both = await edit({ model: 'test/both', image: [source, source] });
    // 10 at 2 credits, 20 at 4, two pictures in at 1,000, one out at 2,000.
    expect((await charged(both)).credits).toBe(20 + 80 + 2_000 + 2_000);
  });

  test('is shown without the head of a data address that some servers write', async () => {
    const b64_json = `data:image/png;base64,${onePixel}`;
    upstream.script('flat-image', replay(JSON.stringify({ data: [{ b64_json }] })));
    expect(imageOf(await edit({ model: 'test/flat' }))).toEqual({ b64_json: onePixel });
  });

  test.each<[string, unknown]>([
    ['as a data address', [{ url: `data:image/png;base64,${onePixel}` }]],
    ['without a list', { b64_json: onePixel }],
    ['in the alphabet of addresses', [{ b64_json: inAddress(onePixel) }]],
  ])('that a server writes %s is found all the same', async (_, data) => {
    upstream.script('flat-image', replay(JSON.stringify({ data })));
    const reply = await edit({ model: 'test/flat' });
    expect(imageOf(reply)).toEqual({ b64_json: onePixel });
    expect((await charged(reply)).credits).toBe(40_000);
  });

  test('that nobody could decode is none, and costs nothing', async () => {
    upstream.script('flat-image', replay(JSON.stringify({ data: [{ b64_json: '<html>' }] })));
    const reply = await edit({ model: 'test/flat' });
    expect(reply.status).toBe(502);
    expect((await charged(reply)).credits).toBe(0);
  });

  test('without a count of tokens is estimated where tokens are the price', async () => {
    upstream.script('gpt-image', replay(JSON.stringify({ data: [{ b64_json: onePixel }] })));
    const reply = await edit({ quality: 'low' });
    // Thirteen characters are four tokens; OpenAI's small picture of low quality has 272.
    const paid = { credits: 4 * 2 + 272 * 4, tokens: [4, 272], estimated: true };
    expect(await charged(reply)).toEqual({ ...paid, operation: 'images' });
  });

  test('with a count that no picture can have is estimated, too', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 50, completion: 900_000_000 } }));
    const reply = await edit({ quality: 'low' });
    const paid = { credits: 4 * 2 + 272 * 4, tokens: [4, 272], estimated: true };
    expect(await charged(reply)).toEqual({ ...paid, operation: 'images' });
  });

  test.each([
    ['openai/image-edit-gpt-image-1.5-two-images.json', [431, 1364, 1795], '1024x1024'],
    ['openai/image-edit-gpt-image-2-size.json', [76, 120, 196], '1536x864'],
  ])('as recorded in %s keeps its size and its counts', async (name, counts, size) => {
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

  test('that the provider refuses says why; one that fails there is tried elsewhere', async () => {
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
    expect((await charged(refused)).credits).toBe(0);
    upstream.script('bad-image', status500());
    upstream.script('good-image', images());
    imageOf(await edit({ model: 'test/spare', mask: mask(half) }));
    // Both got the whole picture and the whole mask.
    const got = upstream.requests
      .slice(1)
      .map((entry) => entry.form?.files.map(({ bytes }) => bytes));
    expect(got).toHaveLength(2);
    expect(got[0]).toEqual(got[1]);
    expect(got[0]).toHaveLength(2);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('that is refused before it was all sent ends with what the provider said', async () => {
    upstream.script('/v1/images/edits', answerEarly(status(413, 'Pictures may have 4 MB.')));
    const large = Buffer.concat([source, Buffer.alloc(30 * 1024 * 1024)]);
    const reply = await edit({ image: large });
    expect([reply.status, reply.error.message]).toEqual([400, 'Pictures may have 4 MB.']);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('waits longer than the provider’s usual timeouts', async () => {
    upstream.script('slow-image', delayed(600, images()));
    imageOf(await edit({ model: 'test/hasty' }));
    upstream.script('slow-image', delayed(600, images()));
    imageOf(await generate({ model: 'test/hasty', prompt: 'a cat' }));
  });

  test('whose client leaves ends at the provider and leaves nothing', async () => {
    upstream.script('gpt-image', delayed(30_000, images()));
    const leaving = new AbortController();
    const gone = fetch(`${gateway.url}/v1/images/edits`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.keys.routing}` },
      body: formOf({ model: 'test/image', prompt: 'a', image: source }),
      signal: leaving.signal,
    }).catch(() => 'gone');
    await upstream.until((requests) => requests.find(({ bodyAt }) => bodyAt !== null));
    leaving.abort();
    expect(await gone).toBe('gone');
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(await nothingLeft()).toBe(true);
  });

  test('whose client leaves while it sends leaves nothing either', async () => {
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
    while (uploadsOnDisk().length === 0) await Bun.sleep(5);
    socket.terminate();
    expect(await nothingLeft()).toBe(true);
    expect(upstream.requests).toHaveLength(0);
  });

  test('takes a photo with a megabyte of previews and proofs of origin in front', async () => {
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
  ])('knows a %s by its bytes', async (kind, bytes) => {
    upstream.script('gpt-image', images());
    imageOf(await edit({ image: Uint8Array.from(bytes) }));
    const [file] = form().files;
    expect([file?.name, file?.type]).toEqual([`image.${kind}`, `image/${kind}`]);
  });

  /** Waits for the gateway to notice that its client is gone; the test's own time bounds it. */
  async function nothingLeft(): Promise<boolean> {
    while (uploadsOnDisk().length > 0) await Bun.sleep(5);
    return true;
  }
});

describe('an edit at Gemini', () => {
  const parts = (at = 0): Record<string, unknown>[] => {
    const body = sent(at) as { contents: { role: string; parts: Record<string, unknown>[] }[] };
    return body.contents[0]?.parts ?? [];
  };

  test('shows the mask as one more picture, white where to edit, and says so', async () => {
    upstream.script('gemini-image', replay(fixture('gemini/image-output.json')));
    const reply = await edit({
      model: 'test/gemini',
      mask: mask(half),
      size: '1920x1080',
      quality: 'high',
      user: 'ann',
    });
    const [entry] = upstream.requests;
    expect(entry?.path).toBe('/v1beta/models/gemini-image:generateContent');
    const [words, ...pictures] = parts();
    expect(words?.text).toStartWith('make it green\n\nThe last image is a mask');
    const data = pictures.map(({ inlineData }) => inlineData as { mimeType: string; data: string });
    expect(data.map(({ mimeType }) => mimeType)).toEqual(['image/png', 'image/png']);
    expect(Buffer.from(data[0]?.data ?? '', 'base64').equals(source)).toBe(true);
    const shown = Buffer.from(data[1]?.data ?? '', 'base64');
    expect(formatOf(shown)).toBe('4x3, 1 channels of 8 bits');
    expect(channelOf(shown, 0)).toEqual([
      [255, 255, 0, 0],
      [255, 255, 0, 0],
      [255, 255, 255, 255],
    ]);
    expect(sent().generationConfig).toEqual({
      responseModalities: ['TEXT', 'IMAGE'],
      imageConfig: { aspectRatio: '16:9', imageSize: '2K' },
    });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('quality, user');
    // The recorded picture is a JPEG, and is called one.
    expect(String(imageOf(reply).b64_json)).toStartWith('/9j/');
    expect(reply.json).toMatchObject({
      model: 'test/gemini',
      output_format: 'jpeg',
      usage: { prompt_tokens: 5, completion_tokens: 1518, total_tokens: 1523 },
    });
    // 5 tokens at 2, 1,518 at 4.
    expect((await charged(reply)).credits).toBe(10 + 6_072);
  });

  test.each([
    ['1024x1024', { aspectRatio: '1:1' }],
    ['1024x1536', { aspectRatio: '2:3' }],
    ['3840x2160', { aspectRatio: '16:9', imageSize: '4K' }],
    ['auto', undefined],
  ])('asks for the shape nearest to %s', async (size, imageConfig) => {
    upstream.script('gemini-image', replay(fixture('gemini/image-output.json')));
    imageOf(await generate({ model: 'test/gemini', prompt: 'a cat', size }));
    expect(sent().generationConfig).toEqual({
      responseModalities: ['TEXT', 'IMAGE'],
      ...(imageConfig ? { imageConfig } : {}),
    });
    expect(parts()).toEqual([{ text: 'a cat' }]);
  });

  test('that drew a draft while thinking gives the picture, not the draft', async () => {
    const drawn = (data: string, more: object = {}) => ({
      inlineData: { mimeType: 'image/png', data },
      ...more,
    });
    const parts = [{ text: 'Here:' }, drawn('ZHJhZnQ=', { thought: true }), drawn(onePixel)];
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
    // 5 tokens at 2; 1,290 and 100 of thinking at 4.
    expect((await charged(reply)).credits).toBe(10 + 5_560);
  });

  test('that was filtered is the client’s to change; mere words are a failure', async () => {
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
    const talk = { content: { parts: [{ text: 'No.' }] }, finishReason: 'STOP' };
    upstream.script('gemini-image', json(200, { candidates: [talk] }));
    const talked = await generate({ model: 'test/gemini', prompt: 'a cat' });
    expect([talked.status, talked.error.code]).toEqual([502, 'upstream_error']);
    expect((await charged(talked)).credits).toBe(0);
  });
});

describe('an edit at SiliconFlow', () => {
  test.each([
    ['test/kontext', 'image'],
    ['test/kontext-pro', 'input_image'],
  ])('of %s has its picture in the field %s', async (alias, field) => {
    // An address of this machine is never fetched, so the client gets the address.
    const url = `${upstream.url}/picture.png`;
    upstream.script('/v1/images/generations', json(200, { images: [{ url }], seed: 1 }));
    const reply = await edit({ model: alias, size: '1024x1024' });
    const body = sent();
    expect(body.prompt).toBe('make it green');
    expect(bytesIn(body[field]).equals(source)).toBe(true);
    expect(imageOf(reply)).toEqual({ url });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('size');
    // 0.04 dollars, whatever it took.
    expect((await charged(reply)).credits).toBe(40_000);
  });

  test.each([
    ['test/kontext', 'image', 'image2'],
    ['test/kontext-pro', 'input_image', 'input_image_2'],
  ])('of %s shows the mask as a second picture in %s and %s, and says so', async (alias, ...at) => {
    const [field, second] = at;
    upstream.script('/v1/images/generations', json(200, { images: [{ b64_json: onePixel }] }));
    const wish = { image2: 'https://pictures.invalid/other.png', seed: '7' };
    const reply = await edit({ model: alias, mask: mask(half), ...wish });
    const { [field]: shown, [second]: white, ...rest } = sent();
    expect(rest).toEqual({
      model: expect.stringMatching(/^kontext-/),
      prompt:
        'make it green\n\nThe last image is a mask of the first one: change only what is white ' +
        'in the mask, and leave everything that is black in it exactly as it is.',
      seed: '7',
    });
    expect(bytesIn(shown).equals(source)).toBe(true);
    expect(formatOf(bytesIn(white))).toBe('4x3, 1 channels of 8 bits');
    expect(channelOf(bytesIn(white), 0)).toEqual([
      [255, 255, 0, 0],
      [255, 255, 0, 0],
      [255, 255, 255, 255],
    ]);
    expect(imageOf(reply)).toEqual({ b64_json: onePixel });
    // The mask has the place that the client wanted for another picture.
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('image2');
    expect((await charged(reply)).credits).toBe(40_000);
  });

  test('takes one picture beside the mask, not two', async () => {
    const reply = await edit({ model: 'test/kontext', image: [source, source], mask: mask(half) });
    expect([reply.status, reply.error.code]).toEqual([400, 'model_capability_mismatch']);
    expect(upstream.requests).toHaveLength(0);
  });

  function bytesIn(dataUrl: unknown): Buffer {
    const [head, data = ''] = String(dataUrl).split(',');
    expect(head).toBe('data:image/png;base64');
    return Buffer.from(data, 'base64');
  }
});

describe('an image from words', () => {
  test('is asked for in JSON and answered like an edit', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 7, completion: 272 } }));
    const wish = {
      prompt: 'a cat',
      size: '1024x1024',
      quality: 'low',
      output_format: 'webp',
      n: 1,
    };
    const reply = await generate({ model: 'test/image', ...wish, moderation: 'low' });
    expect(imageOf(reply).b64_json).toBeString();
    expect(upstream.requests[0]?.path).toBe('/v1/images/generations');
    const { n: _, ...asked } = wish;
    expect(sent()).toEqual({ model: 'gpt-image', ...asked, moderation: 'low' });
    expect((await charged(reply)).credits).toBe(7 * 2 + 272 * 4);
  });

  test('as xAI answers it keeps its address, and gets a time', async () => {
    const url = 'https://pictures.invalid/cat.jpeg';
    const recorded = fixture('xai/image-generation.json').replace(/https:[^"]+/, url);
    upstream.script('flat-image', replay(recorded));
    const reply = await generate({ model: 'test/flat', prompt: 'a siamese cat' });
    expect(imageOf(reply)).toEqual({ url });
    expect(Number(reply.json.created)).toBeGreaterThan(1_700_000_000);
    expect((await charged(reply)).credits).toBe(40_000);
  });

  test('may go through a chain of models', async () => {
    upstream.script('flat-image', status(400, 'no such size'));
    upstream.script('gpt-image', images());
    const reply = await generate({ models: ['test/flat', 'test/image'], prompt: 'a cat' });
    imageOf(reply);
    expect(reply.json.model).toBe('test/image');
  });

  test('is given again to whoever repeats its idempotency key', async () => {
    upstream.script('gpt-image', images({ usage: { prompt: 7, completion: 272 } }));
    const path = '/v1/images/generations';
    const headers = { 'idempotency-key': 'cat-1' };
    const body = { model: 'test/image', prompt: 'a cat' };
    const first = await gateway.post(body, { path, headers });
    const { credits } = await charged(first);
    const balance = await gateway.balance();
    const again = await gateway.post(body, { path, headers });
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    // Its receipt is the first one's, and was paid once.
    expect([await charged(again), credits > 0]).toMatchObject([{ credits }, true]);
    expect(await gateway.balance()).toBe(balance);
    expect(upstream.requests).toHaveLength(1);
  });
});
