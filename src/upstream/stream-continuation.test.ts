/** An answer that goes on after the end of an upstream's stream: another stream, or last words. */
import { afterEach, describe, expect, test } from 'bun:test';
import { offerCalled } from '../../tests/support/offers.ts';
import { type Deadline, DeadlineWatcher } from '../core/deadlines.ts';
import { noUsage } from '../core/usage.ts';
import type { AnswerMetrics } from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/events.ts';
import { OpenAiPassThrough } from '../dialects/openai-chat/same/stream.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptResult, OpenStream } from './attempt.ts';
import { bodyOf } from './connection/response.ts';
import { StreamAnswer, type StreamOutcome } from './stream-answer.ts';
import { TextSource, UpstreamCall } from './upstream-call.ts';

const identity = { id: 'chatcmpl-1', model: 'acme/chat', provider: 'vendor', created: 1 };
const endless = Number.POSITIVE_INFINITY;
const boundless = { charactersMax: endless, charactersEnd: endless, extend: async () => true };
/** Knows how many waiters there are. */
class CountedWatch extends DeadlineWatcher {
  waiting = 0;

  override add(waiting: Deadline): void {
    this.waiting += 1;
    super.add(waiting);
  }

  override remove(waiting: Deadline): boolean {
    const isRemoved = super.remove(waiting);
    if (isRemoved) this.waiting -= 1;
    return isRemoved;
  }
}

const watch = new CountedWatch();
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

function chunk(content: string, finish: string | null = null): string {
  const choices = [{ index: 0, delta: { content }, finish_reason: finish }];
  const head = { id: 'x', object: 'chat.completion.chunk', created: 0, model: 'hidden' };
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`;
}

type Continuation = () => Promise<AttemptResult | string>;
const client = () => new AbortController();

/** A stream that says this and ends; `ended` when its end was seen before its first words. */
function opened(text: string, openContinuation: Continuation, left = client(), ended = false) {
  return openedOn(new Response(text).body ?? new ReadableStream(), openContinuation, left, ended);
}

function openedOn(
  body: ReadableStream<Uint8Array>,
  openContinuation: Continuation,
  left: AbortController,
  ended: boolean,
) {
  const line = new UpstreamCall(watch, left.signal);
  const source = new TextSource(bodyOf(body), line, { idleMs: 1_000 });
  ends.push(
    () => source.close(),
    () => line.release(),
  );
  const relay = new OpenAiPassThrough(identity, { includeUsage: false });
  const stream: OpenStream = {
    kind: 'stream',
    transform: relay,
    reader: new EventStreamReader(),
    source,
    upstreamCall: line,
    opening: '',
    ended,
    openContinuation,
  };
  return stream;
}

function answering(stream: OpenStream, own: Offer['own'] = null) {
  const settled: StreamOutcome[] = [];
  const failures: AnswerMetrics['failure'][] = [];
  const offer = { ...offerCalled('hidden'), own };
  const answer = new StreamAnswer(stream, offer, boundless, async (end, { failure }) => {
    settled.push(end);
    failures.push(failure);
    return { usage: noUsage, costCredits: 0 };
  });
  return { answer, settled, failures };
}

async function hear(stream: OpenStream, own: Offer['own'] = null) {
  const { answer, settled, failures } = answering(stream, own);
  let text = '';
  for await (const content of answer) text += content;
  return { text, settled, failures };
}

describe('after the end of a stream', () => {
  test('last words are said, and the answer is complete', async () => {
    const { text, settled } = await hear(opened(chunk('a', 'stop'), async () => 'last\n\n'));
    expect(text).toMatch(/"a".*last\n\n.*"stop".*data: \[DONE\]\n\n$/s);
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('another stream goes on, and one more, although nothing opens it', async () => {
    const third = opened(chunk('c', 'stop'), async () => '');
    const second = opened(chunk('b', 'stop'), async () => third);
    const { text, settled } = await hear(opened(chunk('a', 'stop'), async () => second));
    for (const letter of ['"a"', '"b"', '"c"']) expect(text).toContain(letter);
    expect(text).toEndWith('data: [DONE]\n\n');
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('another stream goes on, though the first never closes after its terminator', async () => {
    const body = new ReadableStream<Uint8Array>({
      start: (to) => to.enqueue(Buffer.from(`${chunk('a', 'stop')}data: [DONE]\n\n`)),
    });
    const second = opened(chunk('b', 'stop'), async () => '');
    const first = openedOn(body, async () => second, client(), false);
    const { text, settled } = await hear(first);
    expect(text).toMatch(/"a".*"b".*data: \[DONE\]\n\n$/s);
    expect(settled).toEqual([{ kind: 'complete' }]);
    expect(first.upstreamCall.signal.aborted).toBe(true);
  });

  test('a stream that had ended before its first words is followed all the same', async () => {
    const first = opened('', async () => 'behind\n\n', client(), true);
    first.transform.push({ event: null, data: chunk('a', 'stop').slice('data: '.length).trim() });
    expect((await hear(first)).text).toContain('behind');
  });

  test('nobody waits any more for the streams that were heard', async () => {
    expect(watch.waiting).toBe(0);
    const last = opened(chunk('c', 'stop'), async () => '');
    const second = opened(chunk('b', 'stop'), async () => last);
    const { answer } = answering(opened(chunk('a', 'stop'), async () => second));
    let text = '';
    for await (const content of answer) text += content;
    expect(text).toContain('"c"');
    // As the runtime does behind an end, too.
    await answer.return();
    expect(watch.waiting).toBe(0);
  });

  test('a failure breaks the answer, however whole its first stream was', async () => {
    const failure = { kind: 'server', status: 500, message: 'Oh.', retryAfterSeconds: null };
    const broken = async () => ({ kind: 'failed', failure }) as AttemptResult;
    const { text, settled, failures } = await hear(opened(chunk('a', 'stop'), broken));
    expect(settled).toMatchObject([{ how: 'cut', error: { symbol: 'upstream_error' } }]);
    // Its kind decides whether it says anything about the provider's health.
    expect(failures).toMatchObject([failure]);
    expect(text).not.toContain('[DONE]');
  });

  test('a refused account is called the tenant’s where it is the tenant’s own', async () => {
    const failure = { kind: 'credential', status: 401, message: 'No.', retryAfterSeconds: null };
    const refused = async () => ({ kind: 'failed', failure }) as AttemptResult;
    const own = { scope: 'k', feeBasisPoints: 0, isUserAddress: false, sharedNext: null };
    const { text } = await hear(opened(chunk('a', 'stop'), refused), own);
    expect(text).toContain('the provider refused your own account.');
    const shared = await hear(opened(chunk('a', 'stop'), refused));
    expect(shared.text).toContain('the provider refused our account.');
  });

  test('a mistake of ours breaks it too', async () => {
    const mistake = new Error('never told');
    const mistaken = async () => Promise.reject(mistake);
    const { text, settled } = await hear(opened(chunk('a', 'stop'), mistaken));
    // Not a failure of the provider, so it does not count against that one.
    expect(settled).toMatchObject([
      { how: 'cut', error: { symbol: 'internal_error', cause: mistake } },
    ]);
    expect(text).toContain('Tollgate failed');
    expect(text).not.toMatch(/\[DONE\]|never told/);
  });

  test('a mistake of ours that comes before the client asks for more waits for it', async () => {
    const mistaken = async () => Promise.reject(new Error('never told'));
    const stream = opened('', mistaken, client(), true);
    stream.transform.push({ event: null, data: chunk('a', 'stop').slice('data: '.length) });
    const { answer, settled } = answering(stream);
    await answer.next();
    // A rejection that nobody has caught by then ends the process.
    await Bun.sleep(0);
    for await (const content of answer) expect(content).not.toContain('never told');
    expect(settled).toMatchObject([{ how: 'cut' }]);
  });

  test('a client that leaves makes neither an answer nor a failure of the provider', async () => {
    const leaving = client();
    const failure = { kind: 'unreachable', status: null, message: '', retryAfterSeconds: null };
    const openContinuation = async () => {
      leaving.abort();
      return { kind: 'failed', failure } as AttemptResult;
    };
    const { settled } = await hear(opened(chunk('a', 'stop'), openContinuation, leaving));
    expect(settled).toEqual([{ kind: 'left' }]);
  });

  test('a stream that opens when the client is gone is hung up on', async () => {
    const late = Promise.withResolvers<AttemptResult>();
    const requested = Promise.withResolvers<void>();
    const first = opened(chunk('a', 'stop'), () => {
      requested.resolve();
      return late.promise;
    });
    const { answer, settled } = answering(first);
    await answer.next();
    await answer.next();
    const waiting = answer.next();
    await requested.promise;
    await answer.return();
    const second = opened(chunk('b'), async () => '');
    late.resolve(second);
    await waiting;
    expect(second.upstreamCall.signal.aborted).toBe(true);
    expect(settled).toEqual([{ kind: 'left' }]);
  });

  test('nothing is begun any more once the client is gone', async () => {
    let begun = 0;
    const first = opened(chunk('a', 'stop'), async () => {
      begun += 1;
      return '';
    });
    const { answer, settled } = answering(first);
    await answer.next();
    await answer.next();
    const waiting = answer.next();
    await answer.return();
    await waiting;
    expect([begun, settled]).toEqual([0, [{ kind: 'left' }]]);
  });
});
