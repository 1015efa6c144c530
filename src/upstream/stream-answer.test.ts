import { afterAll, describe, expect, spyOn, test } from 'bun:test';
import { ActiveClock } from '../../tests/support/active-clock.ts';
import { offerCalled } from '../../tests/support/offers.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import { noUsage } from '../core/usage.ts';
import type { AnswerMetrics } from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
import { OpenAiPassThrough } from '../dialects/openai-chat/passthrough/stream.ts';
import { bodyOf } from './connection/response.ts';
import { type OutputBudget, StreamAnswer, type StreamOutcome } from './stream-answer.ts';
import { TextSource } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

const identity = { id: 'chatcmpl-1', model: 'acme/chat', provider: 'vendor', created: 1 };
const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends) end();
});

function chunk(content: string | null, finish: string | null = null): string {
  const delta = content === null ? {} : { content };
  const choices = [{ index: 0, delta, finish_reason: finish }];
  const head = { id: 'x', object: 'chat.completion.chunk', created: 0, model: 'hidden' };
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`;
}

const usage = { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 };
const usageEvent = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;

const unlimited: OutputBudget = {
  charactersMax: Number.POSITIVE_INFINITY,
  charactersHardLimit: Number.POSITIVE_INFINITY,
  extend: async () => true,
};

/** Starts an answer whose upstream the test controls. */
function begin(
  budget: OutputBudget = unlimited,
  afterFinishMs = 5_000,
  idleMs = 60_000,
  /** What the upstream sent before the answer was opened. */
  sent = '',
) {
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => {
      body = controller;
    },
  });
  const client = new AbortController();
  const call = new UpstreamCall(new DeadlineWatcher(), client.signal);
  call.signal.addEventListener('abort', () => {
    if (body !== undefined) body.error(new Error('aborted'));
  });
  const source = new TextSource(bodyOf(stream), call, {
    idleMs,
    keepAliveAfterMs: 150,
    afterFinishMs,
  });
  ends.push(
    () => source.close(),
    () => call.release(),
  );
  const transform = new OpenAiPassThrough(identity, { includeUsage: false });
  const reader = new EventStreamReader();
  for (const message of reader.push(sent)) transform.push(message);
  const settled: StreamOutcome[] = [];
  const settledMetrics: AnswerMetrics[] = [];
  const answer = new StreamAnswer(
    {
      kind: 'stream',
      transform,
      reader,
      source,
      upstreamCall: call,
      opening: 'opening\n\n',
      ended: false,
    },
    offerCalled('hidden'),
    budget,
    async (outcome, metrics) => {
      settled.push(outcome);
      settledMetrics.push(metrics);
      return { usage: noUsage, costCredits: 0 };
    },
  );
  const send = (text: string) => body?.enqueue(Buffer.from(text));
  return { answer, send, end: () => body?.close(), client, call, settled, settledMetrics };
}

async function rest(answer: StreamAnswer): Promise<string> {
  let text = '';
  for (;;) {
    const { done, value } = await answer.next().catch(asInterruption);
    if (done) return text;
    text += value;
  }
}

/** An interrupted answer rejects with the error after its error event. */
function asInterruption(error: unknown): IteratorResult<string> {
  expect(error).toBeInstanceOf(GatewayError);
  return { done: true, value: undefined };
}

describe('StreamAnswer', () => {
  const line = (text: string) => `${text.padEnd(1_023, 'x')}\n`;
  const withoutOutput: [string, string][] = [
    ['comments', line(': ')],
    ['id lines', line('id: ')],
    ['empty lines', '\n'.repeat(1_024)],
    ['events without content', `data: {"choices":[],"pad":"${'x'.repeat(995)}"}\n\n`],
  ];
  test.each(withoutOutput)('is interrupted after 16 MiB of %s', async (_, text) => {
    const { answer, send, settled, call } = begin();
    send(chunk('hi'));
    for (let sent = 0; sent < 17; sent += 1) send(text.repeat(1_024));
    expect(await rest(answer)).toContain('data: {"error":{');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { symbol: 'upstream_error' } }]);
    expect(call.signal.aborted).toBe(true);
  });

  test.each([
    ['comments', ':\n'],
    ['empty lines', '\n'],
    ['carriage returns', '\r'],
    ['events without data', 'event:a\n\n'],
    ['events without content', 'data:{}\n\n'],
    ['events without text', 'data:{"choices":[{"index":0,"delta":{}}]}\n\n'],
  ])('is interrupted after 100,000 short %s', async (_, text) => {
    const { answer, send, settled } = begin();
    send(chunk('hi'));
    send(text.repeat(100_001));
    send(chunk('more'));
    expect(await rest(answer)).not.toContain('more');
    const message = 'The provider kept sending data without content.';
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { message } }]);
  });

  test('accepts 99,990 comments between two pieces of content', async () => {
    const { answer, send, end } = begin();
    for (const content of ['first', 'second']) {
      send(chunk(content));
      send(': keep-alive\n'.repeat(99_990));
    }
    send(chunk('third', 'stop'));
    end();
    expect(await rest(answer)).toMatch(/first.*second.*third.*\[DONE\]/s);
  });

  test('is interrupted when unreadable output follows the finish reason', async () => {
    const { answer, send, end, settled } = begin();
    const call = { type: 'function', function: { name: 'f', arguments: '{}' } };
    const calls = Array.from({ length: 1_025 }, (_, index) => ({
      ...call,
      index,
      id: `c${index}`,
    }));
    const choices = [{ index: 0, delta: { tool_calls: calls }, finish_reason: 'tool_calls' }];
    send(
      `${chunk('hi', 'stop')}data: ${JSON.stringify({ choices })}\n\n${usageEvent}data: [DONE]\n\n`,
    );
    end();
    const text = await rest(answer);
    expect(text).toContain('"content":"hi"');
    expect(text).toMatch(/data: {"error":{"message":"[^"]*sent invalid data/);
    expect(text).not.toContain('[DONE]');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { symbol: 'upstream_error' } }]);
  });

  test('reports a bug as an internal error and not as a provider failure', async () => {
    const { answer, send, end, settled } = begin();
    const cause = new TypeError('pieces is not iterable');
    const push = spyOn(OpenAiPassThrough.prototype, 'push').mockImplementationOnce(() => {
      throw cause;
    });
    send(chunk('ho'));
    end();
    expect(await rest(answer)).toMatch(/data: {"error":{"message":"Tollgate failed/);
    push.mockRestore();
    const error = { symbol: 'internal_error', cause };
    expect(settled).toMatchObject([{ kind: 'interrupted', error }]);
  });

  test('accepts any number of comments with output between them', async () => {
    const { answer, send, end, settled } = begin();
    for (let sent = 0; sent < 20; sent += 1) send(chunk('hi') + line(': ').repeat(1_024));
    send(chunk(null, 'stop'));
    end();
    expect(await rest(answer)).toEndWith('data: [DONE]\n\n');
    expect(settled).toEqual([{ kind: 'complete' }]);
  });
});

// These tests wait for real timeouts, so they run concurrently.
describe.concurrent('StreamAnswer', () => {
  test('is settled once, before its closing text', async () => {
    const { answer, send, end, settled } = begin();
    expect(await answer.next()).toEqual({ done: false, value: 'opening\n\n' });
    send(chunk('hi') + chunk(null, 'stop'));
    const content = await answer.next();
    expect(content.value).toContain('"content":"hi"');
    expect(settled).toEqual([]);
    end();
    expect((await answer.next()).value).toBe('data: [DONE]\n\n');
    expect(settled).toEqual([{ kind: 'complete' }]);
    expect(await answer.next()).toEqual({ done: true, value: undefined });
    await answer.return();
    expect(settled).toHaveLength(1);
  });

  test('sends keep-alives while the upstream is silent', async () => {
    const { answer, send, end } = begin();
    await answer.next();
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    send(chunk('hi', 'stop'));
    end();
    expect(await rest(answer)).toContain('[DONE]');
  });

  test('sends keep-alives while the upstream sends only comments', async () => {
    const { answer, send, end } = begin();
    await answer.next();
    const thinking = setInterval(() => send(': processing\n\n'), 50);
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    clearInterval(thinking);
    send(chunk('hi', 'stop'));
    end();
    expect(await rest(answer)).toContain('[DONE]');
  });

  test('ends soon after its finish reason even though the upstream never closes', async () => {
    const { answer, send, settled } = begin(unlimited, 300);
    send(chunk('hi') + chunk(null, 'stop'));
    const alive = setInterval(() => send(chunk(null)), 50);
    try {
      expect(await rest(answer)).toEndWith('data: [DONE]\n\n');
    } finally {
      clearInterval(alive);
    }
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('ends soon after a finish reason in its opening', async () => {
    const { answer, settled } = begin(unlimited, 50, 60_000, chunk('hi', 'stop'));
    expect(await rest(answer)).toContain('opening');
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('ends with its terminator even though the upstream sends more', async () => {
    const { answer, send, settled } = begin(unlimited, 60_000);
    send(`${chunk('hi')}${chunk(null, 'stop')}data: [DONE]\n\n`);
    const alive = setInterval(() => send(chunk('more')), 50);
    try {
      const text = await rest(answer);
      expect(text).toEndWith('data: [DONE]\n\n');
      expect(text).not.toContain('more');
    } finally {
      clearInterval(alive);
    }
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('continues while output arrives even though every piece has a finish reason', async () => {
    const { answer, send, end } = begin(unlimited, 3_000);
    const letters = ['a', 'b', 'c', 'd', 'e', 'f'];
    const received = rest(answer);
    for (const letter of letters) {
      send(chunk(letter, 'stop'));
      await Bun.sleep(700);
    }
    end();
    const content = [...(await received).matchAll(/"content":"(\w)"/g)].map(([, letter]) => letter);
    expect(content).toEqual(letters);
  });

  test('is interrupted when the upstream stays silent', async () => {
    const { answer, settled } = begin(unlimited, 5_000, 1_200);
    const text = await rest(answer);
    expect(text).toContain('data: {"error":{');
    expect(text).not.toContain('[DONE]');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { status: 504 } }]);
  });

  test('redacts the upstream model in a failure', async () => {
    const { answer, send, settled } = begin();
    send('data: {"error":{"message":"hidden is down","code":500}}\n\n');
    const text = await rest(answer);
    expect(text).toContain('acme/chat is down');
    expect(text).not.toContain('hidden');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { symbol: 'upstream_error' } }]);
  });

  test('is settled as client_disconnected when it was never read', async () => {
    const { answer, call, settled } = begin();
    await answer.return();
    expect(settled).toEqual([{ kind: 'client_disconnected' }]);
    expect(call.signal.aborted).toBe(true);
    expect((await answer.next()).done).toBe(true);
  });

  test('is settled as client_disconnected when the client disconnects in the middle', async () => {
    const { answer, send, client, settled } = begin();
    send(chunk('hi'));
    await answer.next();
    await answer.next();
    const waiting = answer.next();
    client.abort();
    await waiting;
    await answer.return();
    expect(settled).toEqual([{ kind: 'client_disconnected' }]);
  });
});

describe.concurrent('StreamAnswer, after a disconnect', () => {
  /** Sends this text to the client, which then disconnects. */
  async function disconnectAfter(text: string) {
    const begun = begin(unlimited, 60_000);
    begun.send(text);
    await begun.answer.next();
    await begun.answer.next();
    const waiting = begun.answer.next();
    begun.client.abort();
    return { ...begun, disconnected: Promise.all([begun.answer.return(), waiting]) };
  }

  test('reads the usage that follows a finished answer', async () => {
    const { send, disconnected, call, settled, settledMetrics } = await disconnectAfter(
      chunk('hi') + chunk(null, 'stop'),
    );
    await Bun.sleep(700);
    expect([call.signal.aborted, settled]).toEqual([false, []]);
    send(`${usageEvent}data: [DONE]\n\n`);
    await disconnected;
    expect(settled).toEqual([{ kind: 'client_disconnected' }]);
    expect(settledMetrics[0]?.usage).toMatchObject({ inputTokens: 2, outputTokens: 1 });
    expect(call.signal.aborted).toBe(true);
  });

  test('cancels the call after 2 seconds when no usage arrives', async () => {
    const startedAt = performance.now();
    using activeClock = new ActiveClock();
    const { disconnected, call, settledMetrics } = await disconnectAfter(
      chunk('hi') + chunk(null, 'stop'),
    );
    await disconnected;
    expect(performance.now() - startedAt).toBeGreaterThan(1_900);
    expect(activeClock.ms).toBeLessThan(4_000);
    expect(settledMetrics[0]?.usage).toBeUndefined();
    expect(call.signal.aborted).toBe(true);
  });

  test('reads the usage of an unfinished answer that ends immediately', async () => {
    const { send, disconnected, settled, settledMetrics } = await disconnectAfter(chunk('hi'));
    send(chunk(' you') + chunk(null, 'stop'));
    send(`${usageEvent}data: [DONE]\n\n`);
    await disconnected;
    expect(settled).toEqual([{ kind: 'client_disconnected' }]);
    expect(settledMetrics[0]).toMatchObject({ finishReason: 'stop', usage: { outputTokens: 1 } });
  });

  test('reads the output usage when only the prompt has been counted so far', async () => {
    const prompt = { prompt_tokens: 2, completion_tokens: 0, total_tokens: 2 };
    const first = { ...JSON.parse(chunk('hi').slice('data: '.length)), usage: prompt };
    const { send, disconnected, settledMetrics } = await disconnectAfter(
      `data: ${JSON.stringify(first)}\n\n`,
    );
    send(`${chunk(null, 'stop')}${usageEvent}data: [DONE]\n\n`);
    await disconnected;
    expect(settledMetrics[0]?.usage).toMatchObject({ inputTokens: 2, outputTokens: 1 });
  });

  test('cancels a long answer and settles the output that the client received', async () => {
    using activeClock = new ActiveClock();
    const { send, disconnected, call, settledMetrics } = await disconnectAfter(chunk('hi'));
    const talk = setInterval(() => !call.signal.aborted && send(chunk('more')), 20);
    await disconnected;
    clearInterval(talk);
    expect(activeClock.ms).toBeLessThan(1_000);
    expect(settledMetrics[0]).toMatchObject({ outputCharacters: 2, usage: undefined });
  });

  test('cancels a long answer in which every piece has a finish reason', async () => {
    using activeClock = new ActiveClock();
    const { send, disconnected, call } = await disconnectAfter(chunk('hi', 'stop'));
    const talk = setInterval(() => !call.signal.aborted && send(chunk('more', 'stop')), 20);
    await disconnected;
    clearInterval(talk);
    expect(activeClock.ms).toBeLessThan(1_000);
  });

  test('cancels the call immediately when the usage is already known', async () => {
    const counted = JSON.stringify({ ...JSON.parse(chunk('hi').slice('data: '.length)), usage });
    const { disconnected, call, settledMetrics } = await disconnectAfter(`data: ${counted}\n\n`);
    expect(call.signal.aborted).toBe(true);
    await disconnected;
    expect(settledMetrics[0]?.usage).toMatchObject({ outputTokens: 1 });
  });
});

describe('StreamAnswer with an OutputBudget', () => {
  test('extends the hold as the answer grows and ends when the credits run out', async () => {
    let extensions = 0;
    const budget = {
      ...unlimited,
      charactersMax: 3,
      async extend() {
        extensions += 1;
        budget.charactersMax += 3;
        return extensions < 2;
      },
    };
    const { answer, send, settled } = begin(budget);
    await answer.next();
    const received: string[] = [];
    for (const text of ['abc', 'de', 'fg']) {
      send(chunk(text));
      received.push(String((await answer.next()).value));
    }
    expect(received.map((text) => /"content":"(\w+)"/.exec(text)?.[1])).toEqual([
      'abc',
      'de',
      'fg',
    ]);
    expect(extensions).toBe(2);
    expect(await rest(answer)).toContain('insufficient_credits');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { status: 402 } }]);
  });

  test('ends with service_unavailable when the credit store is unreachable', async () => {
    const unreachable = new GatewayError('service_unavailable', 'The database is unreachable.');
    const extend = () => Promise.reject(unreachable);
    const { answer, send, settled } = begin({ ...unlimited, charactersMax: 3, extend });
    await answer.next();
    send(chunk('many'));
    expect(await rest(answer)).toContain('The database is unreachable.');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: unreachable }]);
  });

  test('does not extend the hold again after the provider failed', async () => {
    const granted = [true];
    const extend = async () => granted.pop() ?? false;
    const budget = { ...unlimited, charactersMax: 3, extend };
    const { answer, send, settled } = begin(budget);
    await answer.next();
    send(`${chunk('many more words')}data: {"error":{"message":"boom","code":500}}\n\n`);
    expect(await rest(answer)).toContain('boom');
    expect(settled).toMatchObject([{ kind: 'interrupted', error: { symbol: 'upstream_error' } }]);
  });
});
