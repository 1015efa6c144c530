import { describe, expect, spyOn, test } from 'bun:test';
import {
  brotliCompressSync,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import { within } from '../../../tests/support/wait-until.ts';
import { jsonDepthMax, jsonNamesMax } from '../../core/bounds.ts';
import { GatewayError } from '../../core/errors.ts';
import { turns } from '../../core/turns.ts';
import { readBytes, readJson, readManagementBody } from './body.ts';

const bytesMax = 1_000_000;

function post(
  body: string | Uint8Array | ReadableStream<Uint8Array>,
  headers: Readonly<Record<string, string>> = {},
): Request {
  return new Request('http://gateway/v1/chat/completions', { method: 'POST', headers, body });
}

/** Returns the parsed body, or the status and message of the error. */
async function outcome(request: Request, max = bytesMax): Promise<unknown> {
  try {
    return (await readJson({ request, requestedModel: '' }, max)).value;
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.message}`;
    throw error;
  }
}

/** Streams chunks one by one and counts how many were read. */
function chunked(chunks: readonly Uint8Array[]): {
  stream: ReadableStream<Uint8Array>;
  readCount(): number;
} {
  let next = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[next];
        if (chunk === undefined) return controller.close();
        next++;
        controller.enqueue(chunk);
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, readCount: () => next };
}

const compressors: Readonly<Record<string, (text: string) => Uint8Array>> = {
  gzip: gzipSync,
  'X-GZip': gzipSync,
  deflate: deflateSync,
  'deflate without a header': deflateRawSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};

describe('readJson', () => {
  test('returns the object and its original bytes', async () => {
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
  ])('reads from %s the requested model "%s" for the log', async (text, model) => {
    const posted = { request: post(text), requestedModel: '' };
    await readJson(posted, bytesMax);
    expect(posted.requestedModel).toBe(model);
  });

  test('reads chunks that split characters', async () => {
    const encoded = new TextEncoder().encode('{"a":"naïve 😀"}');
    const bytes = Array.from(encoded, (byte) => Uint8Array.of(byte));
    expect(await outcome(post(chunked(bytes).stream))).toEqual({ a: 'naïve 😀' });
  });

  test.each([
    ['', '400 The request body is empty. Send a JSON object.'],
    ['[]', '400 The request body must be a JSON object.'],
    ['null', '400 The request body must be a JSON object.'],
    ['"text"', '400 The request body must be a JSON object.'],
  ])('rejects the body %p', async (body, message) => {
    expect(await outcome(post(body))).toBe(message);
  });

  test("rejects malformed JSON with the parser's reason", async () => {
    expect(await outcome(post('{"a":'))).toMatch(/^400 The request body isn't valid JSON: .+\.$/);
  });

  test('rejects bytes that are not UTF-8', async () => {
    const bytes = Uint8Array.of(0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d);
    expect(await outcome(post(bytes))).toBe("400 The request body isn't valid UTF-8.");
  });

  test('rejects a request without a body', async () => {
    const request = new Request('http://gateway/', { method: 'POST' });
    expect(await outcome(request)).toBe('400 The request body is empty. Send a JSON object.');
  });
});

describe('readBytes', () => {
  test('rejects a Content-Length above the limit without reading', async () => {
    const body = chunked([new Uint8Array(10)]);
    const request = post(body.stream, { 'content-length': '1001' });
    expect(await outcome(request, 1_000)).toBe(
      '413 The request body is larger than the maximum of 1000 bytes.',
    );
    expect(body.readCount()).toBe(0);
  });

  test('stops reading at the limit without a Content-Length', async () => {
    const body = chunked(Array.from({ length: 1_000 }, () => new Uint8Array(100)));
    expect(await outcome(post(body.stream), 1_000)).toMatch(/^413 /);
    expect(body.readCount()).toBeLessThan(20);
  });

  test('counts the bytes if Content-Length is repeated', async () => {
    const body = chunked(Array.from({ length: 1_000 }, () => new Uint8Array(100)));
    const request = post(body.stream, { 'content-length': '9, 9' });
    expect(await outcome(request, 1_000)).toMatch(/^413 /);
    expect(body.readCount()).toBeLessThan(20);
  });

  test('allows exactly the limit', async () => {
    const read = (length: number) =>
      readBytes({ request: post(chunked([new Uint8Array(length)]).stream) }, 100);
    expect(await read(100)).toHaveLength(100);
    await expect(read(101)).rejects.toThrow(GatewayError);
  });
});

describe('readBytes with a slow client', () => {
  /** The message names the time that passed, which is longer on a busy machine. */
  const tooLate = /^The request body didn't arrive within \d+ seconds\.$/;
  const errorFor = (body: ReadableStream<Uint8Array>, headers = {}) =>
    readBytes({ request: post(body, headers) }, 100, 20).catch((error: unknown) => error);

  test.each([
    ['a Content-Length', { 'content-length': '50' }],
    ['a repeated Content-Length', { 'content-length': '50, 50' }],
    ['no Content-Length', {}],
  ])('rejects a stalled body with %s', async (_, headers) => {
    const stalled = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Uint8Array.of(1)),
    });
    expect(await errorFor(stalled, headers)).toMatchObject({
      status: 400,
      symbol: 'invalid_request_error',
      message: expect.stringMatching(tooLate),
    });
  });

  test.each([
    ['a Content-Length', { 'content-length': '20000000' }],
    ['no Content-Length', {}],
  ])('rejects a body below the minimum rate with %s', async (_, headers) => {
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

  test('lets a body at the minimum rate take longer than the stall timeout', async () => {
    let chunksLeft = 12;
    const slow = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(200);
        controller.enqueue(new Uint8Array(64 * 1024));
        chunksLeft -= 1;
        if (chunksLeft === 0) controller.close();
      },
    });
    expect(await readBytes({ request: post(slow) }, 1_000_000, 2_000)).toHaveLength(12 * 64 * 1024);
  });

  test('returns 400 if the client disconnects', async () => {
    const disconnected = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.error(new Error('The connection was closed.')),
    });
    expect(await errorFor(disconnected)).toMatchObject({
      status: 400,
      message: 'The request body ended early.',
    });
  });
});

describe('readJson with nested values', () => {
  const nested = (levels: number, fill = '') =>
    `{"fill":"${fill}","a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  const tooDeep = `400 The request body is nested deeper than ${jsonDepthMax} levels.`;
  /** Large bodies are scanned before they are parsed. */
  const large = '\\"[{'.repeat(100_000);

  test.each([
    ['a small body', ''],
    ['a large body', large],
  ])('accepts the maximum depth in %s and rejects one level more', async (_, fill) => {
    expect(await outcome(post(nested(jsonDepthMax, fill)))).toHaveProperty('a');
    expect(await outcome(post(nested(jsonDepthMax + 1, fill)))).toBe(tooDeep);
  });

  test('counts nested objects like lists', async () => {
    const deep = `${'{"a":'.repeat(jsonDepthMax + 1)}1${'}'.repeat(jsonDepthMax + 1)}`;
    expect(await outcome(post(deep))).toBe(tooDeep);
  });

  test.each([200_000, 900_000])('rejects %d opening brackets with 400', async (count) => {
    expect(await outcome(post(`{"a":${'['.repeat(count)}`))).toMatch(/^400 /);
  });
});

describe('readJson headers', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/vnd.acme+json',
  ])('accepts the content type %s', async (type) => {
    expect(await outcome(post('{}', { 'content-type': type }))).toEqual({});
  });

  test.each(['multipart/form-data; boundary=x', 'text/plain;charset=UTF-8', 'image/png'])(
    'rejects the content type %s with 415',
    async (type) => {
      const [name] = type.split(';');
      expect(await outcome(post('{}', { 'content-type': type }))).toBe(
        `415 Content-Type must be application/json, not ${name}.`,
      );
    },
  );

  test.each(['compress', 'gzip, br', 'constructor'])(
    'rejects the content encoding %s with 415',
    async (encoding) => {
      expect(await outcome(post('{}', { 'content-encoding': encoding }))).toBe(
        `415 Content-Encoding ${encoding} isn't supported. Use gzip, deflate, br, or zstd.`,
      );
      expect(await outcome(post('{}', { 'content-encoding': 'identity' }))).toEqual({});
    },
  );

  describe.each(Object.entries(compressors))('with the content encoding %s', (name, compress) => {
    const headers = { 'content-encoding': name.split(' ')[0] ?? '' };

    test('reads the body', async () => {
      const text = `{"text":"${'naïve 😀 '.repeat(10_000)}"}`;
      const request = post(compress(text), headers);
      const body = await readJson({ request, requestedModel: '' }, bytesMax);
      expect(body.text).toBe(text);
      expect(Buffer.from(body.bytes).toString()).toBe(text);
    });

    test('limits the body before and after it is decompressed', async () => {
      const bomb = compress(`{"text":"${' '.repeat(100_000)}"}`);
      expect(bomb.length).toBeLessThan(999);
      expect(await outcome(post(bomb, headers), 99_999)).toBe(
        '413 The request body is larger than the maximum of 99999 bytes.',
      );
      expect(await outcome(post(crypto.getRandomValues(new Uint8Array(1_000)), headers), 999)).toBe(
        '413 The request body is larger than the maximum of 999 bytes.',
      );
    });

    test('reserves memory for a long body before it is complete', async () => {
      const request = post(compress(`{"text":"${' '.repeat(2_000_000)}"}`), headers);
      const full = new GatewayError('service_unavailable', 'No memory is left.');
      const reserveMemory = () => {
        throw full;
      };
      const reading = readJson({ request, requestedModel: '', reserveMemory }, 10_000_000);
      expect(await reading.catch((error: unknown) => error)).toBe(full);
    });

    test('rejects truncated and other data', async () => {
      const whole = compress(`{"text":"${crypto.randomUUID()}"}`);
      // Bun reports a truncated zstd body as complete, so only its JSON is invalid.
      const half = await outcome(post(whole.subarray(0, whole.length / 2), headers));
      expect(half).toMatch(/^400 The request body isn't valid /);
      expect(await outcome(post('{}', headers))).toBe(
        `400 The request body isn't valid ${headers['content-encoding'].toLowerCase()} data.`,
      );
    });
  });

  test('accepts a body without a content type', async () => {
    const request = post(chunked([new TextEncoder().encode('{}')]).stream);
    expect(request.headers.get('content-type')).toBeNull();
    expect(await outcome(request)).toEqual({});
  });
});

test('readJson limits the number of fields across all objects', async () => {
  const fields = (count: number) =>
    Array.from({ length: count }, (_, i) => `"${i % 1_000}":0`).join(',');
  const wide = (count: number) => `{"list":[{${fields(1_000)}}],"one":{${fields(count)}}}`;
  const fieldsLeft = jsonNamesMax - 1_002;
  const bytes = 4 * bytesMax;
  expect(await outcome(post(wide(fieldsLeft)), bytes)).toHaveProperty('one');
  const tooManyFields = `400 The request body has more than ${jsonNamesMax} fields.`;
  expect(await outcome(post(wide(fieldsLeft + 1)), bytes)).toBe(tooManyFields);
});

test('readJson accepts at most 1,000,000 values, in flat and nested lists', async () => {
  // Each unit counts its comma and its opening brackets; the two outer brackets add 2.
  const flat = (units: number) => `{"a":[${'[],'.repeat(units)}1]}`;
  const nested = `${'['.repeat(99)}${']'.repeat(99)},`;
  const nestedIn = (units: number) => `{"a":[${nested.repeat(units)}1]}`;
  const bytes = 4 * bytesMax;
  const tooManyValues = '400 The request body has more than 1000000 values.';
  expect(await outcome(post(flat(499_999)), bytes)).toHaveProperty('a');
  expect(await outcome(post(flat(500_000)), bytes)).toBe(tooManyValues);
  expect(await outcome(post(nestedIn(10_000)), bytes)).toBe(tooManyValues);
});

test('readJson limits escaped characters and different short strings', async () => {
  const bytes = 8 * bytesMax;
  const escaped = `{"a":"${'\\n'.repeat(2_000_001)}"}`;
  expect(await outcome(post(escaped), bytes)).toBe(
    '400 The request body has more than 2000000 escaped characters.',
  );
  const strings = Array.from({ length: 200_000 }, (_, n) => `s${n}`);
  expect(await outcome(post(JSON.stringify({ strings })), bytes)).toBe(
    '400 The request body has more than 100000 different short strings.',
  );
});

test('readJson takes a turn before it parses a body of more than 16 KB', async () => {
  using pass = spyOn(turns, 'pass');
  const filled = (length: number) => JSON.stringify({ a: 'x'.repeat(length - 8) });
  await outcome(post(filled(16 * 1024)));
  expect(pass).not.toHaveBeenCalled();
  await outcome(post(filled(16 * 1024 + 1)));
  expect(pass).toHaveBeenCalledTimes(1);
});

test('readManagementBody accepts up to 256 KiB, and no body at all', async () => {
  const read = (text: string) => readManagementBody({ request: post(text) });
  const filled = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`;
  expect(await read(filled(262_144))).toHaveProperty('a');
  await expect(read(filled(262_145))).rejects.toMatchObject({ status: 413 });
  const withoutBody = new Request('http://gateway/api/v1/keys', { method: 'POST' });
  expect(await readManagementBody({ request: withoutBody })).toEqual({});
});

test('readBytes leaves no timer behind that keeps the process running', async () => {
  const script = `
    import { readBytes } from '${import.meta.dir}/body.ts';
    const post = (body, headers = {}) =>
      new Request('http://gateway/', { method: 'POST', headers, body });
    const bodies = [post('{}'), post('{}', { 'content-length': '2' }), post('too long')];
    const read = await Promise.allSettled(bodies.map((request) => readBytes({ request }, 2)));
    console.log(read.map(({ status }) => status).join(' '));`;
  const reader = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' });
  expect(await within(reader.exited, 'the reader to exit', 60_000)).toBe(0);
  expect(await reader.stdout.text()).toBe('fulfilled fulfilled rejected\n');
});
