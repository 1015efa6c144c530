import { describe, expect, test } from 'bun:test';
import { jsonDepthMax, jsonNamesMax } from '../../core/bounds.ts';
import { GatewayError } from '../../core/errors.ts';
import { readBytes, readJson, readManagementBody } from './body.ts';

const bytesMax = 1_000_000;

function post(
  body: string | Uint8Array | ReadableStream<Uint8Array>,
  headers: Readonly<Record<string, string>> = {},
): Request {
  return new Request('http://gateway/v1/chat/completions', { method: 'POST', headers, body });
}

/** Status and message of the refusal, or what was read. */
async function outcome(request: Request, max = bytesMax): Promise<unknown> {
  try {
    return (await readJson({ request, requestedModel: '' }, max)).value;
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.message}`;
    throw error;
  }
}

/** Pieces that come one by one; counts how many were taken. */
function pieces(of: readonly Uint8Array[]): {
  stream: ReadableStream<Uint8Array>;
  taken(): number;
} {
  let next = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const piece = of[next];
        if (piece === undefined) return controller.close();
        next++;
        controller.enqueue(piece);
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, taken: () => next };
}

describe('a JSON object', () => {
  test('is read, and its bytes are kept as they came', async () => {
    const text = '{"model" : "a/b", "n": 1.0}';
    const { value, bytes } = await readJson({ request: post(text), requestedModel: '' }, bytesMax);
    expect(value).toEqual({ model: 'a/b', n: 1 });
    expect(new TextDecoder().decode(bytes)).toBe(text);
  });

  test.each([
    ['{"model":"a/b","models":["c/d"]}', 'a/b'],
    ['{"models":["c/d","e/f"]}', 'c/d'],
    ['{"models":"c/d"}', ''],
    ['{"model":7}', ''],
    ['{"model":["a/b"]}', ''],
  ])('names the model that is logged, whatever becomes of the rest: %s', async (text, named) => {
    const posted = { request: post(text), requestedModel: '' };
    await readJson(posted, bytesMax);
    expect(posted.requestedModel).toBe(named);
  });

  test('may come in pieces that cut characters', async () => {
    const whole = new TextEncoder().encode('{"a":"naïve 😀"}');
    const bytes = Array.from(whole, (byte) => Uint8Array.of(byte));
    expect(await outcome(post(pieces(bytes).stream))).toEqual({ a: 'naïve 😀' });
  });

  test.each([
    ['', '400 The request body is empty. Send a JSON object.'],
    ['[]', '400 The request body must be a JSON object.'],
    ['null', '400 The request body must be a JSON object.'],
    ['"text"', '400 The request body must be a JSON object.'],
  ])('%p is none', async (body, message) => {
    expect(await outcome(post(body))).toBe(message);
  });

  test('broken JSON is 400 with the parser’s reason in one sentence', async () => {
    expect(await outcome(post('{"a":'))).toMatch(/^400 The request body isn't valid JSON: .+\.$/);
  });

  test('bytes that are not UTF-8 are 400, not silently replaced', async () => {
    const bytes = Uint8Array.of(0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d);
    expect(await outcome(post(bytes))).toBe('400 The request body is not valid UTF-8.');
  });

  test('a request without any body is told so like an empty one', async () => {
    const request = new Request('http://gateway/', { method: 'POST' });
    expect(await outcome(request)).toBe('400 The request body is empty. Send a JSON object.');
  });
});

describe('size', () => {
  test('a declared length over the limit is 413 without reading a byte', async () => {
    const body = pieces([new Uint8Array(10)]);
    const request = post(body.stream, { 'content-length': '1001' });
    expect(await outcome(request, 1_000)).toBe(
      '413 The request body is larger than the maximum of 1000 bytes.',
    );
    expect(body.taken()).toBe(0);
  });

  test('an undeclared body is cut off at the limit, not collected', async () => {
    const body = pieces(Array.from({ length: 1_000 }, () => new Uint8Array(100)));
    expect(await outcome(post(body.stream), 1_000)).toMatch(/^413 /);
    expect(body.taken()).toBeLessThan(20);
  });

  test('a length that is sent twice bounds nothing: the bytes are counted', async () => {
    const body = pieces(Array.from({ length: 1_000 }, () => new Uint8Array(100)));
    const request = post(body.stream, { 'content-length': '9, 9' });
    expect(await outcome(request, 1_000)).toMatch(/^413 /);
    expect(body.taken()).toBeLessThan(20);
  });

  test('exactly the limit is allowed, one more is not', async () => {
    const read = (length: number) =>
      readBytes({ request: post(pieces([new Uint8Array(length)]).stream) }, 100);
    expect(await read(100)).toHaveLength(100);
    await expect(read(101)).rejects.toThrow(GatewayError);
  });
});

describe('a client that does not send all of its body', () => {
  /** The time that it was waited for; a machine that stood still meanwhile makes it longer. */
  const tooLate = /^The request body didn't arrive within \d+ seconds\.$/;
  const refusal = (body: ReadableStream<Uint8Array>, headers = {}) =>
    readBytes({ request: post(body, headers) }, 100, 20).catch((error: unknown) => error);

  test.each([
    ['said how long it is', { 'content-length': '50' }],
    ['said it twice', { 'content-length': '50, 50' }],
    ['did not say', {}],
  ])('and stalls is told so, whether it %s', async (_, headers) => {
    const stalled = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Uint8Array.of(1)),
    });
    expect(await refusal(stalled, headers)).toMatchObject({
      status: 400,
      symbol: 'invalid_request_error',
      message: expect.stringMatching(tooLate),
    });
  });

  test.each([
    ['said how long it is', { 'content-length': '20000000' }],
    ['did not say', {}],
  ])('but a byte now and then is told so, whether it %s', async (_, headers) => {
    const dripping = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(5);
        controller.enqueue(Uint8Array.of(1));
      },
    });
    const read = readBytes({ request: post(dripping, headers) }, 20_000_000, 20);
    expect(await read.catch((error: unknown) => error)).toMatchObject({
      status: 400,
      message: expect.stringMatching(tooLate),
    });
  });

  test('at once but keeps to the pace is waited for, longer than silence is', async () => {
    let left = 12;
    const slow = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(200);
        controller.enqueue(new Uint8Array(64 * 1024));
        left -= 1;
        if (left === 0) controller.close();
      },
    });
    expect(await readBytes({ request: post(slow) }, 1_000_000, 2_000)).toHaveLength(12 * 64 * 1024);
  });

  test('because it is gone is no failure of ours', async () => {
    const gone = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.error(new Error('The connection was closed.')),
    });
    expect(await refusal(gone)).toMatchObject({
      status: 400,
      message: 'The request body ended early.',
    });
  });
});

describe('nesting', () => {
  const nested = (levels: number, fill = '') =>
    `{"fill":"${fill}","a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  const refusal = `400 The request body is nested deeper than ${jsonDepthMax} levels.`;
  /** Large bodies take another way: they are scanned before they are parsed. */
  const large = '\\"[{'.repeat(100_000);

  test.each([
    ['a small body', ''],
    ['a large body', large],
  ])('of %s is read down to the limit and refused below', async (_, fill) => {
    expect(await outcome(post(nested(jsonDepthMax, fill)))).toHaveProperty('a');
    expect(await outcome(post(nested(jsonDepthMax + 1, fill)))).toBe(refusal);
  });

  test('objects count like lists', async () => {
    const deep = `${'{"a":'.repeat(jsonDepthMax + 1)}1${'}'.repeat(jsonDepthMax + 1)}`;
    expect(await outcome(post(deep))).toBe(refusal);
  });

  test.each([200_000, 900_000])('%d opening brackets break nothing', async (count) => {
    expect(await outcome(post(`{"a":${'['.repeat(count)}`))).toMatch(/^400 /);
  });
});

describe('content type', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/vnd.acme+json',
  ])('%s is taken for JSON', async (type) => {
    expect(await outcome(post('{}', { 'content-type': type }))).toEqual({});
  });

  test.each(['multipart/form-data; boundary=x', 'text/plain;charset=UTF-8', 'image/png'])(
    '%s is 415',
    async (type) => {
      const [name] = type.split(';');
      expect(await outcome(post('{}', { 'content-type': type }))).toBe(
        `415 Content-Type must be application/json, not ${name}.`,
      );
    },
  );

  test.each(['gzip', 'BR', 'identity, zstd'])('a body packed as %s is 415', async (encoding) => {
    expect(await outcome(post('{}', { 'content-encoding': encoding }))).toBe(
      `415 Content-Encoding ${encoding} isn't supported. Send the body uncompressed.`,
    );
    expect(await outcome(post('{}', { 'content-encoding': 'identity' }))).toEqual({});
  });

  test('none at all is forgiven', async () => {
    const request = post(pieces([new TextEncoder().encode('{}')]).stream);
    expect(request.headers.get('content-type')).toBeNull();
    expect(await outcome(request)).toEqual({});
  });
});

test('a body has as many fields as allowed, in whatever objects, and no more', async () => {
  const fields = (count: number) => Array.from({ length: count }, (_, at) => `"${at}":0`).join(',');
  const wide = (count: number) => `{"list":[{${fields(1_000)}}],"one":{${fields(count)}}}`;
  const room = jsonNamesMax - 1_002;
  const bytes = 4 * bytesMax;
  expect(await outcome(post(wide(room)), bytes)).toHaveProperty('one');
  const refusal = `400 The request body has more than ${jsonNamesMax} fields.`;
  expect(await outcome(post(wide(room + 1)), bytes)).toBe(refusal);
});

test('a body has a million values at most: lists in lists count like those in a row', async () => {
  // By hand: each unit has a comma and its opening brackets, and the outer two are two more.
  const beside = (units: number) => `{"a":[${'[],'.repeat(units)}1]}`;
  const nested = `${'['.repeat(99)}${']'.repeat(99)},`;
  const inside = (units: number) => `{"a":[${nested.repeat(units)}1]}`;
  const bytes = 4 * bytesMax;
  const refusal = '400 The request body has more than 1000000 values.';
  expect(await outcome(post(beside(499_999)), bytes)).toHaveProperty('a');
  expect(await outcome(post(beside(500_000)), bytes)).toBe(refusal);
  expect(await outcome(post(inside(10_000)), bytes)).toBe(refusal);
});

test('a management call has room for a quarter of a mebibyte, and for nothing at all', async () => {
  const management = (text: string) => readManagementBody({ request: post(text) });
  const filled = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`;
  expect(await management(filled(262_144))).toHaveProperty('a');
  await expect(management(filled(262_145))).rejects.toMatchObject({ status: 413 });
  const bare = new Request('http://gateway/api/v1/keys', { method: 'POST' });
  expect(await readManagementBody({ request: bare })).toEqual({});
});

test('nothing waits for a body that has come: whoever has read some ends by itself', async () => {
  const reads = `
    import { readBytes } from '${import.meta.dir}/body.ts';
    const post = (body, headers = {}) =>
      new Request('http://gateway/', { method: 'POST', headers, body });
    const bodies = [post('{}'), post('{}', { 'content-length': '2' }), post('too long')];
    const read = await Promise.allSettled(bodies.map((request) => readBytes({ request }, 2)));
    console.log(read.map(({ status }) => status).join(' '));`;
  const reader = Bun.spawn([process.execPath, '-e', reads], { stdout: 'pipe' });
  expect(await reader.exited).toBe(0);
  expect(await reader.stdout.text()).toBe('fulfilled fulfilled rejected\n');
});
