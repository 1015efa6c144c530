import { afterAll, describe, expect, spyOn, test } from 'bun:test';
import { Awake } from '../../tests/support/awake.ts';
import { offerCalled } from '../../tests/support/offers.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import { noUsage } from '../core/usage.ts';
import type { AnswerMetrics } from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/events.ts';
import { OpenAiPassThrough } from '../dialects/openai-chat/same/stream.ts';
import { bodyOf } from './connection/response.ts';
import { type OutputBudget, StreamAnswer, type StreamOutcome } from './stream-answer.ts';
import { TextSource, UpstreamCall } from './upstream-call.ts';

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
const reported = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;

const boundless: OutputBudget = {
  charactersMax: Number.POSITIVE_INFINITY,
  charactersEnd: Number.POSITIVE_INFINITY,
  extend: async () => true,
};

/** An answer that has begun, with an upstream in the test's hands. */
function begun(
  budget: OutputBudget = boundless,
  afterFinishMs = 5_000,
  idleMs = 60_000,
  /** In its opening. */
  written = '',
) {
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => {
      body = controller;
    },
  });
  const client = new AbortController();
  const line = new UpstreamCall(new DeadlineWatcher(), client.signal);
  line.signal.addEventListener('abort', () => {
    if (body !== undefined) body.error(new Error('aborted'));
  });
  const source = new TextSource(bodyOf(stream), line, {
    idleMs,
    keepAliveAfterMs: 150,
    afterFinishMs,
  });
  ends.push(
    () => source.close(),
    () => line.release(),
  );
  const relay = new OpenAiPassThrough(identity, { includeUsage: false });
  const reader = new EventStreamReader();
  for (const message of reader.push(written)) relay.push(message);
  const settled: StreamOutcome[] = [];
  const known: AnswerMetrics[] = [];
  const answer = new StreamAnswer(
    {
      kind: 'stream',
      transform: relay,
      reader,
      source,
      upstreamCall: line,
      opening: 'opening\n\n',
      ended: false,
    },
    offerCalled('hidden'),
    budget,
    async (end, metrics) => {
      settled.push(end);
      known.push(metrics);
      return { usage: noUsage, costCredits: 0 };
    },
  );
  const send = (text: string) => body?.enqueue(Buffer.from(text));
  return { answer, send, end: () => body?.close(), client, line, settled, known };
}

async function rest(answer: StreamAnswer): Promise<string> {
  let text = '';
  for (;;) {
    const { done, value } = await answer.next();
    if (done) return text;
    text += value;
  }
}

describe('an answer on its way', () => {
  const line = (text: string) => `${text.padEnd(1_023, 'x')}\n`;
  const wordless: [string, string][] = [
    ['comments', line(': ')],
    ['lines of no meaning', line('id: ')],
    ['empty lines', '\n'.repeat(1_024)],
    ['events that say nothing', `data: {"choices":[],"pad":"${'x'.repeat(995)}"}\n\n`],
  ];
  test.each(wordless)('ends as cut when no more than %s come, and many', async (_, text) => {
    const { answer, send, settled, line } = begun();
    send(chunk('hi'));
    for (let sent = 0; sent < 17; sent += 1) send(text.repeat(1_024));
    expect(await rest(answer)).toContain('"finish_reason":"error"');
    expect(settled).toMatchObject([{ how: 'cut', error: { symbol: 'upstream_error' } }]);
    expect(line.signal.aborted).toBe(true);
  });

  test('is not whole when more follows its finish than can be told', async () => {
    const { answer, send, end, settled } = begun();
    const call = { type: 'function', function: { name: 'f', arguments: '{}' } };
    const calls = Array.from({ length: 1_025 }, (_, index) => ({
      ...call,
      index,
      id: `c${index}`,
    }));
    const choices = [{ index: 0, delta: { tool_calls: calls }, finish_reason: 'tool_calls' }];
    send(
      `${chunk('hi', 'stop')}data: ${JSON.stringify({ choices })}\n\n${reported}data: [DONE]\n\n`,
    );
    end();
    const text = await rest(answer);
    expect(text).toContain('"content":"hi"');
    expect(text).toMatch(/cannot be used.*"finish_reason":"error"/);
    expect(text).not.toContain('[DONE]');
    expect(settled).toMatchObject([{ how: 'cut', error: { symbol: 'upstream_error' } }]);
  });

  test('that a mistake of ours ends is not laid at the provider’s door', async () => {
    const { answer, send, end, settled } = begun();
    const mistake = new TypeError('words is not iterable');
    const push = spyOn(OpenAiPassThrough.prototype, 'push').mockImplementationOnce(() => {
      throw mistake;
    });
    send(chunk('ho'));
    end();
    expect(await rest(answer)).toMatch(/Tollgate failed.*"finish_reason":"error"/);
    push.mockRestore();
    const error = { symbol: 'internal_error', cause: mistake };
    expect(settled).toMatchObject([{ how: 'cut', error }]);
  });

  test('hears any number of comments that have words between them', async () => {
    const { answer, send, end, settled } = begun();
    for (let sent = 0; sent < 20; sent += 1) send(chunk('hi') + line(': ').repeat(1_024));
    send(chunk(null, 'stop'));
    end();
    expect(await rest(answer)).toEndWith('data: [DONE]\n\n');
    expect(settled).toEqual([{ kind: 'complete' }]);
  });
});

// These tests wait for real silences, so they run at the same time.
describe.concurrent('an answer on its way', () => {
  test('is settled before its last words and only once', async () => {
    const { answer, send, end, settled } = begun();
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

  test('says that it is alive while the upstream thinks', async () => {
    const { answer, send, end } = begun();
    await answer.next();
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    send(chunk('hi', 'stop'));
    end();
    expect(await rest(answer)).toContain('[DONE]');
  });

  test('says so too while the upstream only comments on its thinking', async () => {
    const { answer, send, end } = begun();
    await answer.next();
    const thinking = setInterval(() => send(': processing\n\n'), 50);
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    expect((await answer.next()).value).toBe(': keep-alive\n\n');
    clearInterval(thinking);
    send(chunk('hi', 'stop'));
    end();
    expect(await rest(answer)).toContain('[DONE]');
  });

  test('ends soon after its finish, though an upstream that says nothing never does', async () => {
    const { answer, send, settled } = begun(boundless, 300);
    send(chunk('hi') + chunk(null, 'stop'));
    const alive = setInterval(() => send(chunk(null)), 50);
    try {
      expect(await rest(answer)).toEndWith('data: [DONE]\n\n');
    } finally {
      clearInterval(alive);
    }
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('ends soon after a finish in its opening, too', async () => {
    const { answer, settled } = begun(boundless, 50, 60_000, chunk('hi', 'stop'));
    expect(await rest(answer)).toContain('opening');
    expect(settled).toEqual([{ kind: 'complete' }]);
  });

  test('ends with its terminator, though an upstream that talks on never does', async () => {
    const { answer, send, settled } = begun(boundless, 60_000);
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

  test('goes on while words come, though the upstream calls each of them the last', async () => {
    const { answer, send, end } = begun(boundless, 3_000);
    const written = ['a', 'b', 'c', 'd', 'e', 'f'];
    const received = rest(answer);
    for (const word of written) {
      send(chunk(word, 'stop'));
      await Bun.sleep(700);
    }
    end();
    const content = [...(await received).matchAll(/"content":"(\w)"/g)].map(([, word]) => word);
    expect(content).toEqual(written);
  });

  test('ends as cut when the upstream falls silent for good', async () => {
    const { answer, settled } = begun(boundless, 5_000, 1_200);
    const text = await rest(answer);
    expect(text).toContain('"finish_reason":"error"');
    expect(text).not.toContain('[DONE]');
    expect(settled).toMatchObject([{ how: 'cut', error: { status: 504 } }]);
  });

  test('does not tell the upstream’s names when it fails in the middle', async () => {
    const { answer, send, settled } = begun();
    send('data: {"error":{"message":"hidden is down","code":500}}\n\n');
    const text = await rest(answer);
    expect(text).toContain('acme/chat is down');
    expect(text).not.toContain('hidden');
    expect(settled).toMatchObject([{ how: 'cut', error: { symbol: 'upstream_error' } }]);
  });

  test('that was never begun is settled as left when the client goes', async () => {
    const { answer, line, settled } = begun();
    await answer.return();
    expect(settled).toEqual([{ kind: 'left' }]);
    expect(line.signal.aborted).toBe(true);
    expect((await answer.next()).done).toBe(true);
  });

  test('in whose middle the client goes is left, not broken', async () => {
    const { answer, send, client, settled } = begun();
    send(chunk('hi'));
    await answer.next();
    await answer.next();
    const waiting = answer.next();
    client.abort();
    await waiting;
    await answer.return();
    expect(settled).toEqual([{ kind: 'left' }]);
  });
});

describe.concurrent('a client that has left', () => {
  /** Says this, waits until the client has it, and lets it leave. */
  async function leftBehind(text: string) {
    const rig = begun(boundless, 60_000);
    rig.send(text);
    await rig.answer.next();
    await rig.answer.next();
    const waiting = rig.answer.next();
    rig.client.abort();
    return { ...rig, disconnected: Promise.all([rig.answer.return(), waiting]) };
  }

  test('after the last word pays for the usage that is told a moment later', async () => {
    const { send, disconnected, line, settled, known } = await leftBehind(
      chunk('hi') + chunk(null, 'stop'),
    );
    await Bun.sleep(700);
    expect([line.signal.aborted, settled]).toEqual([false, []]);
    send(`${reported}data: [DONE]\n\n`);
    await disconnected;
    expect(settled).toEqual([{ kind: 'left' }]);
    expect(known[0]?.usage).toMatchObject({ inputTokens: 2, outputTokens: 1 });
    expect(line.signal.aborted).toBe(true);
  });

  test('keeps the call for two seconds at most when no usage comes', async () => {
    const startedAt = performance.now();
    using awake = new Awake();
    const { disconnected, line, known } = await leftBehind(chunk('hi') + chunk(null, 'stop'));
    await disconnected;
    expect(performance.now() - startedAt).toBeGreaterThan(1_900);
    expect(awake.ms).toBeLessThan(4_000);
    expect(known[0]?.usage).toBeUndefined();
    expect(line.signal.aborted).toBe(true);
  });

  test('in the middle pays for the usage of an answer that ends at once', async () => {
    const { send, disconnected, settled, known } = await leftBehind(chunk('hi'));
    send(chunk(' you') + chunk(null, 'stop'));
    send(`${reported}data: [DONE]\n\n`);
    await disconnected;
    expect(settled).toEqual([{ kind: 'left' }]);
    expect(known[0]).toMatchObject({ finishReason: 'stop', usage: { outputTokens: 1 } });
  });

  test('in the middle pays for the words, too, where only the prompt was counted', async () => {
    const prompt = { prompt_tokens: 2, completion_tokens: 0, total_tokens: 2 };
    const first = { ...JSON.parse(chunk('hi').slice('data: '.length)), usage: prompt };
    const { send, disconnected, known } = await leftBehind(`data: ${JSON.stringify(first)}\n\n`);
    send(`${chunk(null, 'stop')}${reported}data: [DONE]\n\n`);
    await disconnected;
    expect(known[0]?.usage).toMatchObject({ inputTokens: 2, outputTokens: 1 });
  });

  test('in the middle of a long answer is charged what it got, and the call ends', async () => {
    using awake = new Awake();
    const { send, disconnected, line, known } = await leftBehind(chunk('hi'));
    const talk = setInterval(() => !line.signal.aborted && send(chunk('more')), 20);
    await disconnected;
    clearInterval(talk);
    expect(awake.ms).toBeLessThan(1_000);
    expect(known[0]).toMatchObject({ outputCharacters: 2, usage: undefined });
  });

  test('is in the middle, too, where the upstream calls every piece the last', async () => {
    using awake = new Awake();
    const { send, disconnected, line } = await leftBehind(chunk('hi', 'stop'));
    const talk = setInterval(() => !line.signal.aborted && send(chunk('more', 'stop')), 20);
    await disconnected;
    clearInterval(talk);
    expect(awake.ms).toBeLessThan(1_000);
  });

  test('in the middle of an answer that is counted as it goes ends the call at once', async () => {
    const counted = JSON.stringify({ ...JSON.parse(chunk('hi').slice('data: '.length)), usage });
    const { disconnected, line, known } = await leftBehind(`data: ${counted}\n\n`);
    expect(line.signal.aborted).toBe(true);
    await disconnected;
    expect(known[0]?.usage).toMatchObject({ outputTokens: 1 });
  });
});

describe('credits on the way', () => {
  test('are asked for as the answer grows, and end it when there are no more', async () => {
    let extensions = 0;
    const budget = {
      ...boundless,
      charactersMax: 3,
      async extend() {
        extensions += 1;
        budget.charactersMax += 3;
        return extensions < 2;
      },
    };
    const { answer, send, settled } = begun(budget);
    await answer.next();
    const seen: string[] = [];
    for (const word of ['abc', 'de', 'fg']) {
      send(chunk(word));
      seen.push(String((await answer.next()).value));
    }
    expect(seen.map((text) => /"content":"(\w+)"/.exec(text)?.[1])).toEqual(['abc', 'de', 'fg']);
    expect(extensions).toBe(2);
    expect(await rest(answer)).toContain('insufficient_credits');
    expect(settled).toMatchObject([{ how: 'cut', error: { status: 402 } }]);
  });

  test('whose store is away end it as unavailable, not for want of credits', async () => {
    const away = new GatewayError('service_unavailable', 'The credit store is away.');
    const extend = () => Promise.reject(away);
    const { answer, send, settled } = begun({ ...boundless, charactersMax: 3, extend });
    await answer.next();
    send(chunk('many'));
    expect(await rest(answer)).toContain('The credit store is away.');
    expect(settled).toMatchObject([{ how: 'cut', error: away }]);
  });

  test('are not asked for again when an answer that outgrew them by far has failed', async () => {
    const granted = [true];
    const extend = async () => granted.pop() ?? false;
    const budget = { ...boundless, charactersMax: 3, extend };
    const { answer, send, settled } = begun(budget);
    await answer.next();
    send(`${chunk('many more words')}data: {"error":{"message":"boom","code":500}}\n\n`);
    expect(await rest(answer)).toContain('boom');
    expect(settled).toMatchObject([{ how: 'cut', error: { symbol: 'upstream_error' } }]);
  });
});
