import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { fc } from '../../../tests/support/random.ts';
import { answerHeadBytesMax } from '../../core/bounds.ts';
import { ConnectionError } from './response.ts';
import { RoundTrip, type Transport } from './round-trip.ts';

/** Starts a round trip and records the calls that it makes to its transport. */
function startTrip() {
  const transportCalls: string[] = [];
  const trip = new RoundTrip({ start: 'POST / HTTP/1.1\r\n\r\n', rest: undefined });
  trip.attach({
    pause: () => void transportCalls.push('pause'),
    resume: () => void transportCalls.push('resume'),
    done: (reusableMs) => void transportCalls.push(reusableMs === 0 ? 'ended' : 'reusable'),
    receivedExcessBytes: () => void transportCalls.push('receivedExcessBytes'),
    close: () => void transportCalls.push('close'),
  });
  // Most tests check the body only.
  trip.response.catch(() => undefined);
  const push = (bytes: string | Uint8Array) => trip.push(Buffer.from(bytes));
  return { trip, transportCalls, push, received: [] as string[] };
}

/** Records the result of one read. It stays pending until bytes arrive. */
function read(trip: RoundTrip, received: string[]): void {
  trip.read(
    (bytes) => received.push(bytes ? Buffer.from(bytes).toString('latin1') : 'end'),
    (reason) => received.push(reason instanceof ConnectionError ? reason.code : 'another error'),
  );
}

/** Reads to the end and records every result. */
function readOn(trip: RoundTrip, received: string[]): void {
  trip.read(
    (bytes) => {
      received.push(bytes ? Buffer.from(bytes).toString('latin1') : 'end');
      if (bytes) readOn(trip, received);
    },
    (reason) => received.push(reason instanceof ConnectionError ? reason.code : 'another error'),
  );
}

const sized = (bytes: number) => `HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`;
const unsized = 'HTTP/1.1 200 OK\r\n\r\n';
const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

describe('RoundTrip', () => {
  test('resolves with the head and frees the connection with the last byte', async () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(`${sized(4)}ab`);
    expect(await trip.response).toMatchObject({ status: 200, ok: true });
    expect(transportCalls).toEqual([]);
    push('cd');
    expect(transportCalls).toEqual(['reusable']);
    for (let index = 0; index < 4; index += 1) read(trip, received);
    expect(received).toEqual(['ab', 'cd', 'end', 'end']);
  });

  test('is accepted after it was sent, unless the server responds with an error', () => {
    const { trip, push } = startTrip();
    expect(trip.isAccepted).toBe(false);
    trip.requestSent();
    expect(trip.isAccepted).toBe(true);
    push('HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\n');
    expect(trip.isAccepted).toBe(false);
  });

  test('is not accepted while it is sent again on a new connection', () => {
    const { trip } = startTrip();
    trip.requestSent();
    trip.attach({} as Transport);
    expect(trip.isAccepted).toBe(false);
  });

  test.each([
    [200, true],
    [299, true],
    [300, false],
    [307, false],
    [400, false],
  ])('reports ok for status %i as %p', async (status, isOk) => {
    const { trip, push } = startTrip();
    push(`HTTP/1.1 ${status} X\r\nContent-Length: 0\r\n\r\n`);
    expect((await trip.response).ok).toBe(isOk);
  });

  test('skips informational responses before the response', async () => {
    const { trip, push } = startTrip();
    push('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early');
    push(` Hints\r\nLink: </a>\r\n\r\n${sized(2)}ok`);
    expect(await (await trip.response).text()).toBe('ok');
  });

  test('limits the size of informational responses', async () => {
    const { trip, transportCalls, push, received } = startTrip();
    const informational = 'HTTP/1.1 102 Processing\r\n\r\n';
    push(informational.repeat(Math.floor(answerHeadBytesMax / informational.length)));
    read(trip, received);
    expect(received).toEqual([]);
    push(informational);
    expect([received, transportCalls]).toEqual([['EPROTO'], ['close']]);
    expect(await failureOf(trip.response)).toMatchObject({ code: 'EPROTO' });
  });

  test('has a null body for a 204', async () => {
    const { trip, transportCalls, push } = startTrip();
    push('HTTP/1.1 204 No Content\r\n\r\n');
    expect(trip.body).toBeNull();
    expect(await trip.text()).toBe('');
    expect(transportCalls).toEqual(['reusable']);
  });

  test('reports bytes after a response without a body as excess bytes', () => {
    const { transportCalls, push } = startTrip();
    push('HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n');
    expect(transportCalls).toEqual(['receivedExcessBytes']);
  });

  test.each(['HTTP/1.1 204 No Content\r\n\r\n\r\n', `${sized(2)}ok\r\n`])(
    'keeps the connection when an empty line follows the response (%#)',
    (text) => {
      const { transportCalls, push } = startTrip();
      push(text);
      expect(transportCalls).toEqual(['reusable']);
    },
  );

  test('completes an empty body with the head', async () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(sized(0));
    read(trip, received);
    expect(received).toEqual(['end']);
    expect(transportCalls).toEqual(['reusable']);
  });

  test.each([`${sized(2)}okay`, `${chunked}2\r\nok\r\n0\r\n\r\nmore`])(
    'reports and drops excess bytes after the body (%#)',
    async (text) => {
      const { trip, transportCalls, push } = startTrip();
      push(text);
      expect(await trip.text()).toBe('ok');
      expect(transportCalls).toEqual(['receivedExcessBytes']);
    },
  );

  test('drops the request once the response has begun', () => {
    const { trip, push } = startTrip();
    expect(trip.request).toBeDefined();
    push('H');
    expect(trip.request).toBeUndefined();
  });

  test("closes the connection when the response isn't HTTP", async () => {
    const { trip, transportCalls, push } = startTrip();
    push('SSH-2.0');
    expect(await failureOf(trip.response)).toMatchObject({ code: 'EPROTO' });
    expect(transportCalls).toEqual(['close']);
  });

  test('delivers the valid bytes before it fails on an invalid chunk', () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(`${chunked}2\r\nok\r\n`);
    push('nonsense');
    for (let index = 0; index < 3; index += 1) read(trip, received);
    expect(received).toEqual(['ok', 'EPROTO', 'EPROTO']);
    expect(transportCalls).toEqual(['close']);
  });
});

describe('RoundTrip.closed', () => {
  test.each([
    ['before the response', ''],
    ['within the head', 'HTTP/1.1 200 OK\r\nContent-'],
  ])('rejects the response when the connection closes %s', async (_, text) => {
    const { trip, push } = startTrip();
    if (text) push(text);
    trip.closed(undefined);
    expect(await failureOf(trip.response)).toMatchObject({ code: 'ECONNRESET' });
  });

  test.each([
    ['with a content-length', `${sized(3)}ok`],
    ['in chunks', `${chunked}2\r\nok\r\n`],
  ])('fails an incomplete body %s', async (_, text) => {
    const [streamed, buffered] = [startTrip(), startTrip()];
    streamed.push(text);
    readOn(streamed.trip, streamed.received);
    streamed.trip.closed(undefined);
    expect(streamed.received).toEqual(['ok', 'ECONNRESET']);
    buffered.push(text);
    const all = buffered.trip.text();
    buffered.trip.closed(undefined);
    expect(await failureOf(all)).toMatchObject({ code: 'ECONNRESET' });
    expect(await failureOf(buffered.trip.text())).toMatchObject({ code: 'ECONNRESET' });
  });

  test.each([
    ['without a length', `${unsized}ok`],
    ['with a last chunk but no final empty line', `${chunked}2\r\nok\r\n0\r\n`],
  ])('completes a body %s', (_, text) => {
    const { trip, push, received } = startTrip();
    push(text);
    readOn(trip, received);
    trip.closed(undefined);
    expect(received).toEqual(['ok', 'end']);
  });

  test('fails a body without a length when the connection broke', () => {
    const { trip, push, received } = startTrip();
    push(`${unsized}ok`);
    readOn(trip, received);
    trip.closed(new ConnectionError('ETIMEDOUT', 'It broke.'));
    expect(received).toEqual(['ok', 'ETIMEDOUT']);
  });

  test('does not complete a body that has already failed', () => {
    const { trip, push, received } = startTrip();
    push(unsized);
    trip.fail(new ConnectionError('EPROTO', 'It broke.'));
    trip.closed(undefined);
    read(trip, received);
    expect(received).toEqual(['EPROTO']);
  });
});

describe('RoundTrip flow control', () => {
  const much = 'x'.repeat(64 * 1024);

  test('pauses the socket when bytes pile up and resumes when all are read', () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(sized(200_000));
    push(much);
    expect(transportCalls).toEqual([]);
    push('y');
    push('z');
    expect(transportCalls).toEqual(['pause']);
    read(trip, received);
    read(trip, received);
    expect(transportCalls).toEqual(['pause']);
    read(trip, received);
    expect(transportCalls).toEqual(['pause', 'resume']);
    expect(received).toEqual([much, 'y', 'z']);
    // An empty buffer can fill again without a pause.
    push(much);
    expect(transportCalls).toEqual(['pause', 'resume']);
  });

  test('pauses the socket while its reader holds a long chunk', () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(sized(400_000));
    read(trip, received);
    push(`${much}y`);
    expect(transportCalls).toEqual(['pause']);
    // Bytes that arrived before the pause are read without resuming.
    push(`${much}z`);
    read(trip, received);
    expect(received).toEqual([`${much}y`, `${much}z`]);
    expect(transportCalls).toEqual(['pause']);
    read(trip, received);
    expect(transportCalls).toEqual(['pause', 'resume']);
  });

  test('resumes the socket before the connection becomes reusable', () => {
    const { transportCalls, push } = startTrip();
    push(sized(much.length + 2));
    push(`${much}y`);
    push('z');
    expect(transportCalls).toEqual(['pause', 'resume', 'reusable']);
  });

  test('resumes the socket when text() waits for the full body', async () => {
    const { trip, transportCalls, push } = startTrip();
    push(`${sized(much.length * 2 + 1)}${much}y`);
    expect(transportCalls).toEqual(['pause']);
    const all = trip.text();
    expect(transportCalls).toEqual(['pause', 'resume']);
    push(much);
    expect(await all).toBe(`${much}y${much}`);
    expect(transportCalls).toEqual(['pause', 'resume', 'reusable']);
  });

  test('parses a long read of one-byte chunks in several turns', async () => {
    const { trip, transportCalls, push } = startTrip();
    push(chunked);
    let pieces = 0;
    const body = trip.text(() => {
      pieces += 1;
    });
    push('1\r\nx\r\n'.repeat(10_000));
    push('0\r\n\r\n');
    expect([pieces, transportCalls]).toEqual([1, ['pause']]);
    expect(await body).toBe('x'.repeat(10_000));
    expect(transportCalls).toEqual(['pause', 'resume', 'reusable']);
  });

  test('parses the rest of a long read when the connection closes', async () => {
    const { trip, push } = startTrip();
    push(`${chunked}${'1\r\nx\r\n'.repeat(10_000)}0\r\n\r\n`);
    trip.closed(undefined);
    expect(await trip.text()).toBe('x'.repeat(10_000));
  });

  test('completes a pending read only once', () => {
    const { trip, push, received } = startTrip();
    push(sized(4));
    read(trip, received);
    push('ab');
    push('cd');
    expect(received).toEqual(['ab']);
    trip.fail(new ConnectionError('EPROTO', 'Too late.'));
    trip.cancel();
    expect(received).toEqual(['ab']);
  });
});

describe('RoundTrip.cancel', () => {
  const canceled = { code: 'ECONNABORTED' };

  test.each([
    ['before any bytes', ''],
    ['within the head', 'HTTP/1.1 200'],
  ])('rejects the response and closes the connection %s', async (_, text) => {
    const { trip, transportCalls, push } = startTrip();
    if (text) push(text);
    trip.cancel();
    expect(await failureOf(trip.response)).toMatchObject(canceled);
    expect(trip.request).toBeUndefined();
    expect(transportCalls).toEqual(['close']);
  });

  test('drops the request before it has a connection', async () => {
    const trip = new RoundTrip({ start: '', rest: undefined });
    trip.cancel();
    expect(trip.request).toBeUndefined();
    expect(await failureOf(trip.response)).toMatchObject(canceled);
  });

  test('fails a pending read once', () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(`${sized(4)}ab`);
    readOn(trip, received);
    trip.cancel();
    trip.cancel();
    expect(received).toEqual(['ab', 'ECONNABORTED']);
    expect(transportCalls).toEqual(['close']);
  });

  test('rejects a pending text()', async () => {
    const { trip, push } = startTrip();
    push(`${sized(4)}ab`);
    const all = trip.text();
    trip.cancel();
    expect(await failureOf(all)).toMatchObject(canceled);
  });

  test('calls no other callback when a callback cancels the round trip', () => {
    const { trip, transportCalls, push, received } = startTrip();
    push(sized(4));
    const unexpected = () => received.push('broken');
    trip.read((bytes) => {
      received.push(String(bytes?.length));
      trip.cancel();
    }, unexpected);
    push('ab');
    expect(received).toEqual(['2']);
    expect(transportCalls).toEqual(['close']);
  });

  test('keeps the connection reusable after the last byte', () => {
    const { trip, transportCalls, push } = startTrip();
    push(`${sized(2)}ok`);
    trip.cancel();
    expect(transportCalls).toEqual(['reusable']);
  });
});

/** Returns the result of these pieces, followed by a close of the connection. */
async function outcomeOf(chunks: readonly Uint8Array[]) {
  const { trip, transportCalls, push, received } = startTrip();
  const answered = trip.response.then(
    ({ status, headers }) => `${status} ${headers.get('a')}`,
    (reason: unknown) => (reason instanceof ConnectionError ? reason.code : String(reason)),
  );
  let isReading = false;
  for (const chunk of chunks) {
    // Like a connection, which pushes nothing after the end of a round trip.
    if (transportCalls.length > 0) break;
    push(chunk);
    if (isReading) continue;
    isReading = true;
    readOn(trip, received);
  }
  if (transportCalls.length === 0) trip.closed(undefined);
  const ending = received.pop();
  const body = received.join('');
  return { head: await answered, body, ending, isClosed: transportCalls.includes('close') };
}

/** Complete, overlong, and invalid bodies of every framing. */
const answer = fc
  .tuple(
    fc.constantFrom('', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Hints\nA: b\n\n'),
    fc.constantFrom(unsized, chunked, sized(5), sized(0), 'HTTP/1.1 200 OK\nA: b\n\r\n'),
    fc.constantFrom('HTTP/1.1 204 None\r\nA: c\r\n\r\n', 'HTTP/1.1 101 Other\r\n\r\n', ''),
    fc.constantFrom(
      'hello',
      '2;a\r\nok\r\n3\nyes\n0\r\nB: c\r\n\r\n',
      '2\r\nok\r\n',
      '5\r\nabcdef',
    ),
  )
  .map((parts) => Buffer.from(parts.join('')));

describe('RoundTrip with generated bytes', () => {
  test('returns the same response wherever the bytes are split', async () => {
    await fc.assert(
      fc.asyncProperty(answer, fc.array(fc.nat(), { maxLength: 6 }), async (bytes, positions) => {
        const at = positions.map((position) => position % bytes.length).sort((a, b) => a - b);
        const cut = [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
        const full = await outcomeOf([bytes]);
        expect(await outcomeOf(cut)).toEqual(full);
        expect(await outcomeOf([...bytes].map((byte) => Buffer.of(byte)))).toEqual(full);
      }),
    );
  });

  test('fails for bytes that are not HTTP', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1 })), async (chunks) => {
        const { head, ending } = await outcomeOf(chunks);
        expect(head).toMatch(/^(?:EPROTO|ECONNRESET)$/);
        expect(ending).not.toBe('end');
      }),
    );
  });

  test('never completes a chunked body after garbage', async () => {
    const garbage = fc.uint8Array({ minLength: 1, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(garbage, async (bytes) => {
        fc.pre(!/^0+[;\s]/.test(Buffer.from(bytes).toString('latin1')));
        const { ending } = await outcomeOf([Buffer.from(`${chunked}2\r\nok\r\n`), bytes]);
        expect(ending).toMatch(/^(?:EPROTO|ECONNRESET)$/);
      }),
    );
  });
});
