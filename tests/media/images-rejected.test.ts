/** Rejected image requests: nothing is sent, charged, or left on disk. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { images, replay } from '../support/fake-upstream.ts';
import {
  chargeOf,
  edit,
  fixture,
  form,
  formOf,
  gateway,
  generate,
  halfMask,
  type Parts,
  send,
  sentBody,
  sourceImage,
  startImageGateway,
  stopImageGateway,
  uploadsOnDisk,
  upstream,
} from '../support/image-gateway.ts';
import { mask, opaquePng } from '../support/images.ts';
import { readReply } from '../support/in-process.ts';

beforeAll(startImageGateway);
afterAll(stopImageGateway);
afterEach(() => upstream.reset());

describe('an invalid image request', () => {
  const cases: readonly [string, Parts, RegExp][] = [
    ['no model', { model: [] }, /^model is required/],
    ['no prompt', { prompt: [] }, /^prompt is required/],
    ['an empty prompt', { prompt: '' }, /^prompt is required/],
    ['no image', { image: [] }, /^image is required/],
    ['a text as image', { image: 'data:image/png;base64,AAAA' }, /^image must be a file/],
    [
      'a text as second image',
      { 'image[1]': 'data:image/png;base64,AAAA' },
      /^image\[1\] must be a file/,
    ],
    ['a script as image', { image: Buffer.from('#!/bin/sh\nrm -rf /') }, /^image isn't a PNG/],
    ['an empty image', { image: new Uint8Array() }, /^image is empty/],
    ['a GIF', { image: Buffer.from('GIF89a\x01\x00\x01\x00') }, /^image isn't a PNG/],
    [
      '17 images',
      { image: Array.from({ length: 17 }, () => sourceImage) },
      /^image has more than 16 files/,
    ],
    ['n = 2', { n: '2' }, /^n is 2, but each request can generate only one image/],
    ['n = 0', { n: '0' }, /^n must be a whole number/],
    ['n = -1', { n: '-1' }, /^n must be a whole number/],
    ['n beyond the integer range', { n: '18446744073686646784' }, /only one image/],
    [
      'n under the name batch_size',
      { batch_size: '4' },
      /^batch_size is "4", but each request can generate only one image/,
    ],
    ['n = many', { n: 'many' }, /^n must be a whole number/],
    ['a size that is a word', { size: 'large' }, /^size must be "auto" or WIDTHxHEIGHT/],
    ['a size of 0x0', { size: '0x0' }, /^size must be/],
    ['an unknown quality', { quality: 'ultra' }, /^quality must be one of/],
    ['an unknown background', { background: 'red' }, /^background must be one of/],
    ['an unknown format', { output_format: 'gif' }, /^output_format must be one of/],
    ['response_format url', { response_format: 'url' }, /^response_format must be/],
    ['a stream', { stream: 'true' }, /^stream is not supported/],
    ['a repeated field', { quality: ['low', 'high'] as never }, /^quality appears twice/],
    ['a file as size', { size: sourceImage }, /^size must be text/],
    ['two masks', { mask: [mask(halfMask), mask(halfMask)] }, /^mask appears twice/],
    [
      'a mask with a different size',
      { mask: mask(['##', '##']) },
      /^mask is 2x2, but it must be the same size as the image, which is 4x3/,
    ],
    [
      'a mask with a different width',
      { mask: mask(['##', '##', '##']) },
      /^mask is 2x3, but it must be/,
    ],
    [
      'a mask that is not a PNG',
      { mask: jpeg(4, 3) },
      /^mask is not a PNG\. Send a PNG with an alpha/,
    ],
    ['a mask without alpha', { mask: opaquePng(4, 3) }, /^mask has no alpha channel/],
    [
      'a mask without an area to edit',
      { mask: mask(['....', '--..', '....']) },
      /transparent everywhere/,
    ],
    [
      "a mask of OpenAI's kind without an area to edit",
      { mask: mask(['####', '####', '####']), mask_edits: 'transparent' },
      /^mask is opaque everywhere\. .* whose transparent pixels/,
    ],
    ['an unknown kind of mask', { mask_edits: 'white' }, /^mask_edits must be/],
    ['a truncated mask', { mask: mask(halfMask).slice(0, 60) }, /^mask is a damaged PNG/],
    [
      'a mask with too many pixels',
      { image: pngClaiming(9_000, 9_000), mask: pngClaiming(9_000, 9_000) },
      /more than/,
    ],
  ];

  /** Returns the start of a JPEG, up to and including its size. */
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

  /** Returns a small PNG whose header claims this size. */
  function pngClaiming(width: number, height: number): Uint8Array {
    const png = Buffer.from(mask(halfMask));
    png.writeUInt32BE(width, 16);
    png.writeUInt32BE(height, 20);
    return png;
  }

  test.each(cases)('is rejected: %s', async (_, parts, message) => {
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
    expect((await chargeOf(reply)).credits).toBe(0);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('is rejected for a model that does not edit or generate images', async () => {
    const noEdit = await edit({ model: 'test/words' });
    expect([noEdit.status, noEdit.error]).toEqual([
      400,
      {
        message: 'The model "test/words" does not edit images.',
        type: 'invalid_request_error',
        code: 'model_capability_mismatch',
      },
    ]);
    const noImageInput = await edit({ model: 'test/blind' });
    expect([noImageInput.status, noImageInput.error.code]).toEqual([
      400,
      'model_capability_mismatch',
    ]);
    const noGeneration = await generate({ model: 'test/edits', prompt: 'a cat' });
    expect([noGeneration.status, noGeneration.error.code]).toEqual([
      400,
      'model_capability_mismatch',
    ]);
    expect(upstream.requests).toHaveLength(0);
  });

  test('is rejected if the body is not a complete form', async () => {
    const asJson = await send('{}', { 'content-type': 'application/json' });
    expect(asJson.status).toBe(415);
    const head = '--x\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n';
    const truncated = await send(`${head}abc`, {
      'content-type': 'multipart/form-data; boundary=x',
    });
    expect([truncated.status, truncated.error.code]).toEqual([400, 'invalid_request_error']);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('is rejected with more than 100 MB, with or without a content-length', async () => {
    const big = new Uint8Array(101 * 1024 * 1024);
    const declared = await edit({ image: big });
    expect([declared.status, declared.error.code]).toEqual([413, 'invalid_request_error']);
    expect(uploadsOnDisk()).toEqual([]);
    // 2 files of 51 MB in a body without a content-length.
    const part = (name: string) =>
      Buffer.from(`--x\r\ncontent-disposition: form-data; name="${name}"; filename="a"\r\n\r\n`);
    async function* chunks() {
      for (const name of ['image', 'mask']) {
        yield part(name);
        for (let mb = 0; mb < 51; mb += 1) yield Buffer.alloc(1024 * 1024);
        yield Buffer.from('\r\n');
      }
      yield Buffer.from('--x--');
    }
    const chunked = await readReply(
      await fetch(`${gateway.url}/v1/images/edits`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${gateway.keys.routing}`,
          'content-type': 'multipart/form-data; boundary=x',
        },
        body: chunks(),
      }),
    );
    expect([chunked.status, chunked.error.code]).toEqual([413, 'invalid_request_error']);
    expect(uploadsOnDisk()).toEqual([]);
  }, 120_000);

  test('is rejected for generations: n = 2, no prompt, an invalid size, no model', async () => {
    for (const [body, param] of [
      [{ model: 'test/image', prompt: 'a', n: 2 }, 'n'],
      [{ model: 'test/image' }, 'prompt'],
      [{ model: 'test/image', prompt: 'a', size: 5 }, 'size'],
      [{ prompt: 'a' }, 'model'],
    ] as const) {
      const reply = await generate(body);
      expect(reply.status).toBe(400);
      expect(String(reply.error.message)).toStartWith(`${param} `);
    }
    expect(upstream.requests).toHaveLength(0);
  });

  test('is rejected for a key without the scope or the credits', async () => {
    const chatOnly = await gateway.makeKey({ scopes: ['chat'] });
    const body = formOf({ model: 'test/flat', prompt: 'a', image: sourceImage });
    expect((await send(body, {}, chatOnly)).error).toMatchObject({
      type: 'permission_error',
      code: 'forbidden',
    });
    const poor = await gateway.makeKey({ limit: 39_999 });
    const reply = await send(body, {}, poor);
    expect([reply.status, reply.error.type, reply.error.code]).toEqual([
      402,
      'billing_error',
      'insufficient_credits',
    ]);
    expect(upstream.requests).toHaveLength(0);
    expect(uploadsOnDisk()).toEqual([]);
  });
});

describe('a provider error for an image request', () => {
  test.each([
    [
      'openai/image-edit-error-url-404.json',
      'Error while downloading file. Upstream status code: 404.',
    ],
    ['openai/image-error-response-format.json', "Unknown parameter: 'response_format'."],
  ])('reaches the client and is free: %s', async (name, message) => {
    upstream.script('gpt-image', replay(fixture(name), { status: 400 }));
    const reply = await edit({});
    expect([reply.status, reply.error.type]).toEqual([400, 'invalid_request_error']);
    expect(reply.error.message).toBe(message);
    expect((await chargeOf(reply)).credits).toBe(0);
    expect(uploadsOnDisk()).toEqual([]);
  });

  test('about response_format is avoided, because the field is not sent', async () => {
    const body = { model: 'test/image', prompt: 'a', response_format: 'b64_json' };
    upstream.script('gpt-image', images());
    expect((await generate(body)).status).toBe(200);
    expect((await edit({ response_format: 'b64_json' })).status).toBe(200);
    expect(Object.keys(sentBody(0))).not.toContain('response_format');
    expect(Object.keys(form(1).fields)).not.toContain('response_format');
  });
});
