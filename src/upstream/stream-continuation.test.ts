/** Tests answers that continue after an upstream's stream: with another stream or closing text. */
import { afterEach, describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { offerCalled } from '../../tests/support/offers.ts';
import { within } from '../../tests/support/wait-until.ts';
import { type Deadline, DeadlineWatcher } from '../core/deadlines.ts';
import type { GatewayError } from '../core/errors.ts';
import { noUsage } from '../core/usage.ts';
import type { AnswerMetrics } from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
import { OpenAiPassThrough } from '../dialects/openai-chat/passthrough/stream.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptResult, Continuation, OpenStream } from './attempt.ts';
import { bodyOf } from './connection/response.ts';
import { StreamAnswer, type StreamOutcome } from './stream-answer.ts';
import { TextSource } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

const identity = { id: 'chatcmpl-1', model: 'acme/chat', provider: 'vendor', created: 1 };
const endless = Number.POSITIVE_INFINITY;
const unlimited = {
  charactersMax: endless,
  charactersHardLimit: endless,
  extend: async () => true,
};
/** Counts the deadlines that it watches. */
class CountingWatcher extends DeadlineWatcher {
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

const deadlines = new CountingWatcher();
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

function chunk(content: string, finish: string | null = null): string {
  const choices = [{ index: 0, delta: { content }, finish_reason: finish }];
  const head = { id: 'x', object: 'chat.completion.chunk', created: 0, model: 'hidden' };
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`;
}

type OpenContinuation = () => Promise<Continuation>;
const clientSignal = () => new AbortController();
const closing =
  (text: string): OpenContinuation =>
  async () => ({ kind: 'closing', text });

/** Opens a stream with this text. `ended` means that its end arrived before its first output. */
function opened(
  text: string,
  openContinuation: OpenContinuation,
  client = clientSignal(),
  ended = false,
) {
  const body = new Response(text).body ?? new ReadableStream();
  return openedOn(body, openContinuation, client, ended);
}

function openedOn(
  body: ReadableStream<Uint8Array>,
  openContinuation: OpenContinuation,
  client: AbortController,
  ended: boolean,
) {
  const upstreamCall = new UpstreamCall(deadlines, client.signal);
  const source = new TextSource(bodyOf(body), upstreamCall, { idleMs: 1_000 });
  ends.push(
    () => source.close(),
    () => upstreamCall.release(),
  );
  const stream: OpenStream = {
    kind: 'stream',
    transform: new OpenAiPassThrough(identity, { includeUsage: false }),
    reader: new EventStreamReader(),
    source,
    upstreamCall,
    opening: '',
    ended,
    openContinuation,
  };
  return stream;
}

function answering(stream: OpenStream, ownAccount: Offer['ownAccount'] = null) {
  const settled: StreamOutcome[] = [];
  const failures: AnswerMetrics['failure'][] = [];
  const offer = { ...offerCalled('hidden'), ownAccount };
  const answer = new StreamAnswer(stream, offer, unlimited, async (end, { failure }) => {
    settled.push(end);
    failures.push(failure);
    return { usage: noUsage, costCredits: 0 };
  });
  return { answer, settled, failures };
}

/** Reads an answer to its end. An interrupted one rejects with the error that was settled. */
async function readAll(stream: OpenStream, ownAccount: Offer['ownAccount'] = null) {
  const { answer, settled, failures } = answering(stream, ownAccount);
  let text = '';
  try {
    for await (const content of answer) text += content;
  } catch (error) {
    expect(settled).toEqual([{ kind: 'interrupted', error: error as GatewayError }]);
  }
  return { text, settled, failures };
}

describe('StreamAnswer, after the upstream stream has ended', () => {
  test('writes the closing text and completes', async () => {
    const { text, settled } = await readAll(opened(chunk('a', 'stop'), closing('last\n\n')));
    expect(text).toMatch(/"a".*last\n\n.*"stop".*data: \[DONE\]\n\n$/s);
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('continues with a second and a third stream', async () => {
    const third = opened(chunk('c', 'stop'), closing(''));
    const second = opened(chunk('b', 'stop'), async () => third);
    const { text, settled } = await readAll(opened(chunk('a', 'stop'), async () => second));
    for (const letter of ['"a"', '"b"', '"c"']) expect(text).toContain(letter);
    expect(text).toEndWith('data: [DONE]\n\n');
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('continues even though the first stream never closes after its terminator', async () => {
    const body = new ReadableStream<Uint8Array>({
      start: (to) => to.enqueue(Buffer.from(`${chunk('a', 'stop')}data: [DONE]\n\n`)),
    });
    const second = opened(chunk('b', 'stop'), closing(''));
    const first = openedOn(body, async () => second, clientSignal(), false);
    const { text, settled } = await readAll(first);
    expect(text).toMatch(/"a".*"b".*data: \[DONE\]\n\n$/s);
    expect(settled).toEqual([{ kind: 'complete' }]);
    expect(first.upstreamCall.signal.aborted).toBe(true);
  });

  test('continues after a stream that ended before its first output', async () => {
    const first = opened('', closing('behind\n\n'), clientSignal(), true);
    first.transform.push({ event: null, data: chunk('a', 'stop').slice('data: '.length).trim() });
    expect((await readAll(first)).text).toContain('behind');
  });

  test('removes the deadlines of all its streams', async () => {
    expect(deadlines.waiting).toBe(0);
    const last = opened(chunk('c', 'stop'), closing(''));
    const second = opened(chunk('b', 'stop'), async () => last);
    const { answer } = answering(opened(chunk('a', 'stop'), async () => second));
    let text = '';
    for await (const content of answer) text += content;
    expect(text).toContain('"c"');
    // The runtime also calls `return` after the end.
    await answer.return();
    expect(deadlines.waiting).toBe(0);
  });

  test('fails if the next stream fails', async () => {
    const failure = { kind: 'server', status: 500, message: 'Oh.', retryAfterSeconds: null };
    const broken = async () => ({ kind: 'failed', failure }) as AttemptResult;
    const { text, settled, failures } = await readAll(opened(chunk('a', 'stop'), broken));
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { symbol: 'upstream_error' } }]);
    // The kind decides whether the failure affects the provider's health.
    expect(failures).toMatchObject([failure]);
    expect(text).not.toContain('[DONE]');
  });

  test('names the owner of the account that the provider rejected', async () => {
    const failure = { kind: 'credential', status: 401, message: 'No.', retryAfterSeconds: null };
    const rejected = async () => ({ kind: 'failed', failure }) as AttemptResult;
    const own = { credentialVersion: 'k', feeBasisPoints: 0, isUserUrl: false, sharedNext: null };
    const { text } = await readAll(opened(chunk('a', 'stop'), rejected), own);
    expect(text).toContain('The provider rejected your account.');
    const shared = await readAll(opened(chunk('a', 'stop'), rejected));
    expect(shared.text).toContain("The provider rejected the gateway's account.");
  });

  test('fails with an internal error if opening the next stream throws', async () => {
    const cause = new Error('never sent');
    const rejecting = async () => Promise.reject(cause);
    const { text, settled } = await readAll(opened(chunk('a', 'stop'), rejecting));
    // An internal error doesn't count against the provider's health.
    expect(settled).toMatchObject([
      { kind: 'interrupted', error: { symbol: 'internal_error', cause } },
    ]);
    expect(text).toContain('Tollgate failed');
    expect(text).not.toMatch(/\[DONE\]|never sent/);
  });

  test('handles an internal error that occurs before the client reads on', async () => {
    const rejecting = async () => Promise.reject(new Error('never sent'));
    const stream = opened('', rejecting, clientSignal(), true);
    stream.transform.push({ event: null, data: chunk('a', 'stop').slice('data: '.length) });
    const { answer, settled } = answering(stream);
    await answer.next();
    // An unhandled rejection would crash the process here.
    await Bun.sleep(0);
    expect((await answer.next()).value).toMatch(/^data: {"error":{"message":"Tollgate failed/);
    expect(await failureOf(answer.next())).toMatchObject({ symbol: 'internal_error' });
    expect(settled).toMatchObject([{ kind: 'interrupted' }]);
  });

  test('settles as client_disconnected if the client disconnects between streams', async () => {
    const leaving = clientSignal();
    const failure = { kind: 'unreachable', status: null, message: '', retryAfterSeconds: null };
    const openContinuation = async () => {
      leaving.abort();
      return { kind: 'failed', failure } as AttemptResult;
    };
    const { settled } = await readAll(opened(chunk('a', 'stop'), openContinuation, leaving));
    expect(settled).toEqual([{ kind: 'client_disconnected' }]);
  });

  test('cancels the next stream if it opens after the client disconnected', async () => {
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
    await within(requested.promise, 'the request to arrive');
    await answer.return();
    const second = opened(chunk('b'), closing(''));
    late.resolve(second);
    await waiting;
    expect(second.upstreamCall.signal.aborted).toBe(true);
    expect(settled).toEqual([{ kind: 'client_disconnected' }]);
  });

  test('opens no next stream after the client disconnected', async () => {
    let openings = 0;
    const first = opened(chunk('a', 'stop'), async () => {
      openings += 1;
      return { kind: 'closing', text: '' };
    });
    const { answer, settled } = answering(first);
    await answer.next();
    await answer.next();
    const waiting = answer.next();
    await answer.return();
    await waiting;
    expect([openings, settled]).toEqual([0, [{ kind: 'client_disconnected' }]]);
  });
});
