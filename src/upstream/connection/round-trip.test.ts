import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { answerHeadBytesMax } from '../../core/bounds.ts';
import { ConnectionError } from './response.ts';
import { RoundTrip } from './round-trip.ts';

/** A trip, and what its connection was told to do. */
function startTrip() {
  const reported: string[] = [];
  const trip = new RoundTrip({ start: 'POST / HTTP/1.1\r\n\r\n', rest: undefined });
  trip.attach({
    pause: () => void reported.push('pause'),
    resume: () => void reported.push('resume'),
    done: (reusableMs) => void reported.push(reusableMs === 0 ? 'not kept' : 'kept'),
    overrun: () => void reported.push('overrun'),
    close: () => void reported.push('close'),
  });
  // Most tests look at the body only.
  trip.response.catch(() => undefined);
  const push = (bytes: string | Uint8Array) => trip.push(Buffer.from(bytes));
  return { trip, reported, push, received: [] as string[] };
}

/** Notes what one read brings: exactly one note for each, or none while nothing has come. */
function read(trip: RoundTrip, received: string[]): void {
  trip.read(
    (bytes) => received.push(bytes ? Buffer.from(bytes).toString('latin1') : 'over'),
    (reason) => received.push(reason instanceof ConnectionError ? reason.code : 'another error'),
  );
}

/** What a reader hears that always asks for more. */
function readOn(trip: RoundTrip, received: string[]): void {
  trip.read(
    (bytes) => {
      received.push(bytes ? Buffer.from(bytes).toString('latin1') : 'over');
      if (bytes) readOn(trip, received);
    },
    (reason) => received.push(reason instanceof ConnectionError ? reason.code : 'another error'),
  );
}

const measured = (bytes: number) => `HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`;
const unmeasured = 'HTTP/1.1 200 OK\r\n\r\n';
const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

describe('an answer', () => {
  test('is there as soon as its head is, and frees the connection with its last byte', async () => {
    const { trip, reported, push, received } = startTrip();
    push(`${measured(4)}ab`);
    expect(await trip.response).toMatchObject({ status: 200, ok: true });
    expect(reported).toEqual([]);
    push('cd');
    expect(reported).toEqual(['kept']);
    for (let at = 0; at < 4; at += 1) read(trip, received);
    expect(received).toEqual(['ab', 'cd', 'over', 'over']);
  });

  test.each([
    [200, true],
    [299, true],
    [300, false],
    [307, false],
    [400, false],
  ])('of status %i is good: %p', async (status, isGood) => {
    const { trip, push } = startTrip();
    push(`HTTP/1.1 ${status} X\r\nContent-Length: 0\r\n\r\n`);
    expect((await trip.response).ok).toBe(isGood);
  });

  test('may have notes before it', async () => {
    const { trip, push } = startTrip();
    push('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early');
    push(` Hints\r\nLink: </a>\r\n\r\n${measured(2)}ok`);
    expect(await (await trip.response).text()).toBe('ok');
  });

  test('has no notes without end before it', async () => {
    const { trip, reported, push, received } = startTrip();
    const note = 'HTTP/1.1 102 Processing\r\n\r\n';
    const many = Math.floor(answerHeadBytesMax / note.length);
    push(note.repeat(many));
    read(trip, received);
    expect(received).toEqual([]);
    push(note);
    expect([received, reported]).toEqual([['EPROTO'], ['close']]);
    expect(await failureOf(trip.response)).toMatchObject({ code: 'EPROTO' });
  });

  test('may have no body', async () => {
    const { trip, reported, push } = startTrip();
    push('HTTP/1.1 204 No Content\r\n\r\n');
    expect(trip.body).toBeNull();
    expect(await trip.text()).toBe('');
    expect(reported).toEqual(['kept']);
  });

  test('that has no body and is followed by something leaves no connection to others', () => {
    const { reported, push } = startTrip();
    push('HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n');
    expect(reported).toEqual(['overrun']);
  });

  test.each(['HTTP/1.1 204 No Content\r\n\r\n\r\n', `${measured(2)}ok\r\n`])(
    'with an empty line behind it leaves its connection to others: %#',
    (text) => {
      const { reported, push } = startTrip();
      push(text);
      expect(reported).toEqual(['kept']);
    },
  );

  test('with an empty body is whole with its head', async () => {
    const { trip, reported, push, received } = startTrip();
    push(measured(0));
    read(trip, received);
    expect(received).toEqual(['over']);
    expect(reported).toEqual(['kept']);
  });

  test.each([`${measured(2)}okay`, `${chunked}2\r\nok\r\n0\r\n\r\nmore`])(
    'with bytes behind it ends the connection, and has none of them: %#',
    async (text) => {
      const { trip, reported, push } = startTrip();
      push(text);
      expect(await trip.text()).toBe('ok');
      expect(reported).toEqual(['overrun']);
    },
  );

  test('that has begun is not asked for again', () => {
    const { trip, push } = startTrip();
    expect(trip.request).toBeDefined();
    push('H');
    expect(trip.request).toBeUndefined();
  });

  test('that is no HTTP ends the connection', async () => {
    const { trip, reported, push } = startTrip();
    push('SSH-2.0');
    expect(await failureOf(trip.response)).toMatchObject({ code: 'EPROTO' });
    expect(reported).toEqual(['close']);
  });

  test('that breaks in the middle ends the connection, after all that was whole', () => {
    const { trip, reported, push, received } = startTrip();
    push(`${chunked}2\r\nok\r\n`);
    push('nonsense');
    for (let at = 0; at < 3; at += 1) read(trip, received);
    expect(received).toEqual(['ok', 'EPROTO', 'EPROTO']);
    expect(reported).toEqual(['close']);
  });
});

describe('a closed connection', () => {
  test.each([
    ['before the answer', ''],
    ['in its head', 'HTTP/1.1 200 OK\r\nContent-'],
  ])('is no answer: %s', async (_, text) => {
    const { trip, push } = startTrip();
    if (text) push(text);
    trip.closed(undefined);
    expect(await failureOf(trip.response)).toMatchObject({ code: 'ECONNRESET' });
  });

  test.each([
    ['measured', `${measured(3)}ok`],
    ['in chunks', `${chunked}2\r\nok\r\n`],
  ])('is no end of a body that is not whole: %s', async (_, text) => {
    const [one, other] = [startTrip(), startTrip()];
    one.push(text);
    readOn(one.trip, one.received);
    one.trip.closed(undefined);
    expect(one.received).toEqual(['ok', 'ECONNRESET']);
    other.push(text);
    const all = other.trip.text();
    other.trip.closed(undefined);
    expect(await failureOf(all)).toMatchObject({ code: 'ECONNRESET' });
    expect(await failureOf(other.trip.text())).toMatchObject({ code: 'ECONNRESET' });
  });

  test.each([
    ['unmeasured', `${unmeasured}ok`],
    ['without the line behind its last chunk', `${chunked}2\r\nok\r\n0\r\n`],
  ])('is the end of a body: %s', (_, text) => {
    const { trip, push, received } = startTrip();
    push(text);
    readOn(trip, received);
    trip.closed(undefined);
    expect(received).toEqual(['ok', 'over']);
  });

  test('that broke is no end, even of an unmeasured body', () => {
    const { trip, push, received } = startTrip();
    push(`${unmeasured}ok`);
    readOn(trip, received);
    trip.closed(new ConnectionError('ETIMEDOUT', 'It broke.'));
    expect(received).toEqual(['ok', 'ETIMEDOUT']);
  });

  test('makes nothing whole that has failed before', () => {
    const { trip, push, received } = startTrip();
    push(unmeasured);
    trip.fail(new ConnectionError('EPROTO', 'It broke.'));
    trip.closed(undefined);
    read(trip, received);
    expect(received).toEqual(['EPROTO']);
  });
});

describe('a reader', () => {
  const much = 'x'.repeat(64 * 1024);

  test('who takes nothing makes the server wait, and who has taken all hears on', () => {
    const { trip, reported, push, received } = startTrip();
    push(measured(200_000));
    push(much);
    expect(reported).toEqual([]);
    push('y');
    push('z');
    expect(reported).toEqual(['pause']);
    read(trip, received);
    read(trip, received);
    expect(reported).toEqual(['pause']);
    read(trip, received);
    expect(reported).toEqual(['pause', 'resume']);
    expect(received).toEqual([much, 'y', 'z']);
    // From here on it keeps up.
    push(much);
    expect(reported).toEqual(['pause', 'resume']);
  });

  test('who is slow leaves no connection behind that nobody hears', () => {
    const { reported, push } = startTrip();
    push(measured(much.length + 2));
    push(`${much}y`);
    push('z');
    expect(reported).toEqual(['pause', 'resume', 'kept']);
  });

  test('who wants all of it makes nobody wait', async () => {
    const { trip, reported, push } = startTrip();
    push(`${measured(much.length * 2 + 1)}${much}y`);
    expect(reported).toEqual(['pause']);
    const all = trip.text();
    expect(reported).toEqual(['pause', 'resume']);
    push(much);
    expect(await all).toBe(`${much}y${much}`);
    expect(reported).toEqual(['pause', 'resume', 'kept']);
  });

  test('who waits is told once', () => {
    const { trip, push, received } = startTrip();
    push(measured(4));
    read(trip, received);
    push('ab');
    push('cd');
    expect(received).toEqual(['ab']);
    trip.fail(new ConnectionError('EPROTO', 'Too late.'));
    trip.cancel();
    expect(received).toEqual(['ab']);
  });
});

describe('a call that is ended', () => {
  const ended = { code: 'ECONNABORTED' };

  test.each([
    ['before anything came', ''],
    ['in the head', 'HTTP/1.1 200'],
  ])('has no answer: %s', async (_, text) => {
    const { trip, reported, push } = startTrip();
    if (text) push(text);
    trip.cancel();
    expect(await failureOf(trip.response)).toMatchObject(ended);
    expect(trip.request).toBeUndefined();
    expect(reported).toEqual(['close']);
  });

  test('before it has a connection is never sent', async () => {
    const trip = new RoundTrip({ start: '', rest: undefined });
    trip.cancel();
    expect(trip.request).toBeUndefined();
    expect(await failureOf(trip.response)).toMatchObject(ended);
  });

  test('in the body tells whoever waits, once', () => {
    const { trip, reported, push, received } = startTrip();
    push(`${measured(4)}ab`);
    readOn(trip, received);
    trip.cancel();
    trip.cancel();
    expect(received).toEqual(['ab', 'ECONNABORTED']);
    expect(reported).toEqual(['close']);
  });

  test('tells whoever wants all of it', async () => {
    const { trip, push } = startTrip();
    push(`${measured(4)}ab`);
    const all = trip.text();
    trip.cancel();
    expect(await failureOf(all)).toMatchObject(ended);
  });

  test('by its reader in the middle of a piece hears no more', () => {
    const { trip, reported, push, received } = startTrip();
    push(measured(4));
    const unexpected = () => received.push('broken');
    trip.read((bytes) => {
      received.push(String(bytes?.length));
      trip.cancel();
    }, unexpected);
    push('ab');
    expect(received).toEqual(['2']);
    expect(reported).toEqual(['close']);
  });

  test('after its last byte leaves the connection to others', () => {
    const { trip, reported, push } = startTrip();
    push(`${measured(2)}ok`);
    trip.cancel();
    expect(reported).toEqual(['kept']);
  });
});

/** What becomes of the bytes in these pieces, when the connection is closed behind them. */
async function outcomeOf(pieces: readonly Uint8Array[]) {
  const { trip, reported, push, received } = startTrip();
  const answered = trip.response.then(
    ({ status, headers }) => `${status} ${headers.get('a')}`,
    (reason: unknown) => (reason instanceof ConnectionError ? reason.code : String(reason)),
  );
  let isReading = false;
  for (const piece of pieces) {
    // As a connection does, which brings nothing more to a trip that is over.
    if (reported.length > 0) break;
    push(piece);
    if (isReading) continue;
    isReading = true;
    readOn(trip, received);
  }
  if (reported.length === 0) trip.closed(undefined);
  const ending = received.pop();
  const body = received.join('');
  return { head: await answered, body, ending, isClosed: reported.includes('close') };
}

/** Every kind of body, whole, overlong and broken. */
const answer = fc
  .tuple(
    fc.constantFrom('', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Hints\nA: b\n\n'),
    fc.constantFrom(unmeasured, chunked, measured(5), measured(0), 'HTTP/1.1 200 OK\nA: b\n\r\n'),
    fc.constantFrom('HTTP/1.1 204 None\r\nA: c\r\n\r\n', 'HTTP/1.1 101 Other\r\n\r\n', ''),
    fc.constantFrom(
      'hello',
      '2;a\r\nok\r\n3\nyes\n0\r\nB: c\r\n\r\n',
      '2\r\nok\r\n',
      '5\r\nabcdef',
    ),
  )
  .map((parts) => Buffer.from(parts.join('')));

describe('whatever comes', () => {
  test('is the same answer wherever it is cut', async () => {
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

  test('is broken where it is no answer, and nothing else', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1 })), async (pieces) => {
        const { head, ending } = await outcomeOf(pieces);
        expect(head).toMatch(/^(?:EPROTO|ECONNRESET)$/);
        expect(ending).not.toBe('over');
      }),
    );
  });

  test('is never whole where its chunks are garbage', async () => {
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
