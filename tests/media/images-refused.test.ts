/** What image requests are refused, with nothing sent, charged or left behind. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { images, replay } from '../support/fake-upstream.ts';
import {
  charged,
  edit,
  fixture,
  form,
  formOf,
  gateway,
  generate,
  half,
  uploadsOnDisk,
  type Parts,
  send,
  sent,
  source,
  startImageGateway,
  stopImageGateway,
  upstream,
} from '../support/image-gateway.ts';
import { readReply } from '../support/in-process.ts';
import { mask, opaquePng } from '../support/images.ts';

beforeAll(startImageGateway);
afterAll(stopImageGateway);
afterEach(() => upstream.reset());

describe('is refused, nothing is sent, charged or left on disk:', () => {
  const cases: readonly [string, Parts, RegExp][] = [
    ['no model', { model: [] }, /^model is required/],
    ['no prompt', { prompt: [] }, /^prompt is required/],
    ['an empty prompt', { prompt: '' }, /^prompt is required/],
    ['no image', { image: [] }, /^image is required/],
    ['an image that is a text', { image: 'data:image/png;base64,AAAA' }, /^image must be a file/],
    ['another one', { 'image[1]': 'data:image/png;base64,AAAA' }, /^image\[1\] must be a file/],
    ['an image that is none', { image: Buffer.from('#!/bin/sh\nrm -rf /') }, /^image is not a PNG/],
    ['an empty image', { image: new Uint8Array() }, /^image is empty/],
    ['a GIF', { image: Buffer.from('GIF89a\x01\x00\x01\x00') }, /^image is not a PNG/],
    ['seventeen images', { image: Array.from({ length: 17 }, () => source) }, /more than 16/],
    ['n = 2', { n: '2' }, /^n is 2, but a request generates one image/],
    ['n = 0', { n: '0' }, /^n must be a whole number/],
    ['n = -1', { n: '-1' }, /^n must be a whole number/],
    ['n beyond all numbers', { n: '18446744073686646784' }, /generates one image/],
    [
      'four at once by another name',
      { batch_size: '4' },
      /^batch_size is "4", but a request generates one image/,
    ],
    ['n = many', { n: 'many' }, /^n must be a whole number/],
    ['a size in words', { size: 'large' }, /^size must be "auto" or WIDTHxHEIGHT/],
    ['a size of nothing', { size: '0x0' }, /^size must be/],
    ['an unknown quality', { quality: 'ultra' }, /^quality must be one of/],
    ['an unknown background', { background: 'red' }, /^background must be one of/],
    ['an unknown format', { output_format: 'gif' }, /^output_format must be one of/],
    ['addresses', { response_format: 'url' }, /^response_format must be/],
    ['a stream', { stream: 'true' }, /^stream is not supported/],
    ['a field twice', { quality: ['low', 'high'] as never }, /^quality is given twice/],
    ['a file for a text', { size: source }, /^size must be a text/],
    ['two masks', { mask: [mask(half), mask(half)] }, /^mask is given twice/],
    [
      'a mask of another size',
      { mask: mask(['##', '##']) },
      /^mask is 2x2, but must be the size of image, 4x3/,
    ],
    ['a mask of another width', { mask: mask(['##', '##', '##']) }, /^mask is 2x3 and image/],
    [
      'a mask that is no PNG',
      { mask: jpeg(4, 3) },
      /^mask is not a PNG\. Send a PNG with an alpha/,
    ],
    ['a mask without alpha', { mask: opaquePng(4, 3) }, /^mask has no alpha channel/],
    [
      'a mask that edits nothing',
      { mask: mask(['....', '--..', '....']) },
      /transparent everywhere/,
    ],
    ['half a mask', { mask: mask(half).slice(0, 60) }, /^mask is a damaged PNG/],
    [
      'a mask of too many pixels',
      { image: claims(9_000, 9_000), mask: claims(9_000, 9_000) },
      /more than/,
    ],
  ];

  /** A JPEG as far as its size. */
  function jpeg(width: number, height: number): Uint8Array {
    return Uint8Array.of(
      0xff,
      0xd8,
      0xff,
      0xc0,
      0,
      17,
      8,
      0,
      height,
      0,
      width,
      3,
      1,
      0x22,
      0,
      2,
      17,
      1,
    );
  }

  /** A PNG of a few bytes whose header says that it is large. */
  function claims(width: number, height: number): Uint8Array {
    const png = Buffer.from(mask(half));
    png.writeUInt32BE(width, 16);
    png.writeUInt32BE(height, 20);
    return png;
  }

  test.each(cases)('%s', async (_, parts, message) => {
    const reply = await edit(parts);
    expect([reply.status, reply.error]).toEqual([
      400,
      {
        message: expect.stringMatching(message),
        type: 'invalid_request_error',
        code: 'invalid_request_error',
      },
    ]);
    expect(String(reply.error.message)).toEndWith('.');
    expect(upstream.requests).toHaveLength(0);
    expect((await charged(reply)).credits).toBe(0);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('a model that does not edit, or does not make images from words', async () => {
    const noEdit = await edit({ model: 'test/words' });
    expect([noEdit.status, noEdit.error]).toEqual([
      400,
      {
        message: 'The model "test/words" does not edit images.',
        type: 'invalid_request_error',
        code: 'model_capability_mismatch',
      },
    ]);
    const blind = await edit({ model: 'test/blind' });
    expect([blind.status, blind.error.code]).toEqual([400, 'model_capability_mismatch']);
    const noWords = await generate({ model: 'test/edits', prompt: 'a cat' });
    expect([noWords.status, noWords.error.code]).toEqual([400, 'model_capability_mismatch']);
    expect(upstream.requests).toHaveLength(0);
  });

  test('a body that is no form, or no whole one', async () => {
    const asJson = await send('{}', { 'content-type': 'application/json' });
    expect(asJson.status).toBe(415);
    const head = '--x\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n';
    const cut = await send(`${head}abc`, { 'content-type': 'multipart/form-data; boundary=x' });
    expect([cut.status, cut.error.code]).toEqual([400, 'invalid_request_error']);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('more than 100 MB, said or sent', async () => {
    const big = new Uint8Array(101 * 1024 * 1024);
    const said = await edit({ image: big });
    expect([said.status, said.error.code]).toEqual([413, 'invalid_request_error']);
    expect(uploadsOnDisk()).toEqual([]);
    // Two files of 51 MB, of whose length nobody says anything.
    const part = (name: string) =>
      Buffer.from(`--x\r\ncontent-disposition: form-data; name="${name}"; filename="a"\r\n\r\n`);
    async function* unsaid() {
      for (const name of ['image', 'mask']) {
        yield part(name);
        for (let mb = 0; mb < 51; mb += 1) yield Buffer.alloc(1024 * 1024);
        yield Buffer.from('\r\n');
      }
      yield Buffer.from('--x--');
    }
    const sent = await readReply(
      await fetch(`${gateway.url}/v1/images/edits`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${gateway.keys.routing}`,
          'content-type': 'multipart/form-data; boundary=x',
        },
        body: unsaid(),
      }),
    );
    expect([sent.status, sent.error.code]).toEqual([413, 'invalid_request_error']);
    expect(uploadsOnDisk()).toEqual([]);
  }, 120_000);

  test('words: n = 2, no prompt, a wrong size', async () => {
    for (const [body, word] of [
      [{ model: 'test/image', prompt: 'a', n: 2 }, 'n'],
      [{ model: 'test/image' }, 'prompt'],
      [{ model: 'test/image', prompt: 'a', size: 5 }, 'size'],
      [{ prompt: 'a' }, 'model'],
    ] as const) {
      const reply = await generate(body);
      expect(reply.status).toBe(400);
      expect(String(reply.error.message)).toStartWith(`${word} `);
    }
    expect(upstream.requests).toHaveLength(0);
  });

  test('a key without the scope, and one that cannot pay', async () => {
    const chatOnly = await gateway.makeKey({ scopes: ['chat'] });
    const form1 = formOf({ model: 'test/flat', prompt: 'a', image: source });
    expect((await send(form1, {}, chatOnly)).error).toMatchObject({
      type: 'permission_error',
      code: 'forbidden',
    });
    const poor = await gateway.makeKey({ limit: 39_999 });
    const reply = await send(form1, {}, poor);
    expect([reply.status, reply.error.type, reply.error.code]).toEqual([
      402,
      'billing_error',
      'insufficient_credits',
    ]);
    expect(upstream.requests).toHaveLength(0);
    expect(uploadsOnDisk()).toEqual([]);
  });
});

describe('a provider’s refusal as it was recorded', () => {
  test.each([
    [
      'openai/image-edit-error-url-404.json',
      'Error while downloading file. Upstream status code: 404.',
    ],
    ['openai/image-error-response-format.json', "Unknown parameter: 'response_format'."],
  ])('%s reaches the client, and is free', async (name, message) => {
    upstream.script('gpt-image', replay(fixture(name), { status: 400 }));
    const reply = await edit({});
    expect([reply.status, reply.error.type]).toEqual([400, 'invalid_request_error']);
    expect(reply.error.message).toBe(message);
    expect((await charged(reply)).credits).toBe(0);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('of `response_format` is not provoked: nobody is sent it', async () => {
    const wish = { model: 'test/image', prompt: 'a', response_format: 'b64_json' };
    upstream.script('gpt-image', images());
    expect((await generate(wish)).status).toBe(200);
    expect((await edit({ response_format: 'b64_json' })).status).toBe(200);
    expect(Object.keys(sent(0))).not.toContain('response_format');
    expect(Object.keys(form(1).fields)).not.toContain('response_format');
  });
});
