/**
 * Answers written as vendors of the OpenAI family send them, through a running gateway to clients
 * of all kinds: whole, byte by byte, and cut after every event. What is right was worked out by
 * hand and stands in `fixtures/written/expect.json`; the costs at 2 credits a token in, 1 a cached
 * one and 3 a token out.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { promptTokens } from '../../src/core/usage.ts';
import { readFailure } from '../../src/dialects/failure.ts';
import { type ReplayOptions, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import {
  readAnthropicAnswer,
  readOpenAiAnswer,
  readResponsesAnswer,
} from '../support/client-answers.ts';
import {
  checkAnthropicStream,
  checkOpenAiStream,
  checkResponsesStream,
} from '../support/stream-checks.ts';

interface Expected {
  readonly dialect: 'openai' | 'openai-responses';
  readonly text: string;
  readonly reasoning: string;
  readonly refusal?: string;
  readonly tool_calls: readonly { readonly name: string; readonly arguments: object }[];
  readonly images?: number;
  /** How clients read of a picture in whose format only bytes can be one. */
  readonly image_link?: string;
  /** Null for an answer that is none. */
  readonly finish_reason: string | null;
  readonly stop_reason: string | null;
  /** Null where nobody told, and the tokens are an estimate. */
  readonly usage: Readonly<Record<string, number>> | null;
  /** Part of the sentence that says why there is no answer. */
  readonly error?: string;
  /** With so many events it is whole; never, when left out. */
  readonly whole_after?: number;
  /** The same for clients that can hear one choice only. */
  readonly first_whole_after?: number;
  /** Its first event could be all of a short answer: what follows shows that it is not. */
  readonly alone_looks_whole?: boolean;
  /** What a client of the same kind finds unchanged. */
  readonly keeps?: readonly string[];
  readonly content_type?: string;
}

interface ExpectedFailure {
  readonly status: number;
  readonly kind: string;
  readonly message: string;
  readonly body: string;
}

const folder = new URL('../../fixtures/written/', import.meta.url);
const readText = (name: string) => readFileSync(new URL(name, folder), 'utf8');
const answers = Object.entries(JSON.parse(readText('expect.json')) as Record<string, Expected>);
const failures = Object.entries(
  JSON.parse(readText('errors.json')) as Record<string, ExpectedFailure>,
);
const isStream = (name: string) => name.endsWith('.sse');

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const provider = { base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const pricing = { prompt: '2', cache_read: '1', completion: '3' };
  const dialects = ['openai', 'openai-responses'];
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 1_000_000 },
    providers: Object.fromEntries(dialects.map((dialect) => [dialect, { dialect, ...provider }])),
    models: dialects.map((name) =>
      chatModel(`test/${name}`, [{ provider: name, model: 'written', pricing }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const messages = [{ role: 'user', content: 'Hello!' }];
const clients = {
  openai: {
    path: '/v1/chat/completions',
    body: { messages },
    check: checkOpenAiStream,
    see: readOpenAiAnswer,
  },
  anthropic: {
    path: '/v1/messages',
    body: { messages, max_tokens: 1_000 },
    check: checkAnthropicStream,
    see: readAnthropicAnswer,
  },
  responses: {
    path: '/v1/responses',
    body: { input: 'Hello!' },
    check: checkResponsesStream,
    see: readResponsesAnswer,
  },
} as const;
type Name = keyof typeof clients;
const names: readonly Name[] = ['openai', 'anthropic', 'responses'];

/** What a client gets when the upstream sends these bytes. */
async function ask(
  name: Name,
  { dialect }: Expected,
  bytes: string,
  { stream, ...options }: ReplayOptions & { readonly stream: boolean },
) {
  upstream.script('written', replay(bytes, options));
  const { path, body } = clients[name];
  const asked = { model: `test/${dialect}`, stream, ...body };
  return gateway.post(asked, { path });
}

const pieces = ['whole', 'byte by byte'] as const;

describe.each(answers)('%s', (file, expected) => {
  const raw = readText(file);
  const contentType =
    expected.content_type ?? (isStream(file) ? 'text/event-stream' : 'application/json');

  test.each(names)('is what it is to %s, in pieces too', async (name) => {
    // An error may come whole where a stream was asked for; an answer may not.
    const forms = isStream(file) ? [true] : expected.error === undefined ? [false] : [false, true];
    const ways = pieces.flatMap((piece) => forms.map((stream) => ({ piece, stream })));
    for (const way of ways) {
      const options = { contentType, streamed: true, ...way };
      const reply = await ask(name, expected, raw, options);
      if (expected.error !== undefined) await expectFailure(reply, name, expected, expected.error);
      else await expectAnswer(reply, name, file, expected);
    }
  });

  if (!isStream(file)) return;
  test.each(names)('is whole to %s no sooner than it is', async (name) => {
    const events = raw.split(/(?<=\n\n|\r\n\r\n|\r\r)/);
    const { whole_after: whole, first_whole_after: first = whole } = expected;
    const enough = (name === 'openai' ? whole : first) ?? Number.POSITIVE_INFINITY;
    for (let length = 0; length < events.length; length += 1) {
      const cut = events.slice(0, length).join('');
      const reply = await ask(name, expected, cut, { contentType, stream: true });
      const ended = reply.status === 200 ? clients[name].check(reply.text).ended : 'error';
      const isWhole = length >= enough || (length === 1 && expected.alone_looks_whole);
      expect({ length, ended }).toEqual({ length, ended: isWhole ? 'complete' : 'error' });
    }
  });
});

type Reply = Awaited<ReturnType<typeof ask>>;

async function expectAnswer(reply: Reply, name: Name, file: string, expected: Expected) {
  expect(reply.status).toBe(200);
  const seen = clients[name].see(reply.text, isStream(file));
  // Anthropic has no place of its own for a refusal.
  const { refusal = '', keeps = [], image_link: link } = expected;
  const words = name === 'anthropic' ? expected.text + refusal : expected.text;
  const said = name === 'openai' ? words : words + (link ?? '');
  expect({ text: seen.text, reasoning: seen.reasoning, finish: seen.finish }).toEqual({
    text: said,
    reasoning: expected.reasoning,
    finish: name === 'anthropic' ? expected.stop_reason : expected.finish_reason,
  });
  const calls = seen.calls.map((call) => ({
    name: call.name,
    arguments: JSON.parse(call.arguments) as object,
  }));
  expect(calls).toEqual([...expected.tool_calls]);
  expect(new Set(seen.calls.map(({ id }) => id)).size).toBe(calls.length);
  const asLink = link !== undefined && name === 'openai' ? 1 : 0;
  expect(seen.images).toBe(expected.images ?? asLink);
  if (name === 'openai') for (const kept of keeps) expect(reply.text).toContain(kept);
  const { usage, usageEstimated, charges } = await gateway.record(reply.requestId);
  expect(usageEstimated).toBe(expected.usage === null);
  if (expected.usage === null) return;
  expect({
    prompt_tokens: promptTokens(usage),
    completion_tokens: usage.outputTokens,
    cached_tokens: usage.cacheReadTokens,
    reasoning_tokens: usage.reasoningTokens,
    cost: charges.modelCharge,
  }).toEqual(expected.usage as never);
}

async function expectFailure(reply: Reply, name: Name, expected: Expected, why: string) {
  const record = await gateway.record(reply.requestId);
  expect(record.status).toBe('error');
  if (reply.status !== 200) {
    expect(reply.error.message).toContain(why);
    expect(record.charges.modelCharge).toBe(0);
    return;
  }
  const seen = clients[name].check(reply.text);
  expect(seen.ended).toBe('error');
  expect(seen.error?.message).toContain(why);
  // A response tells its text when the part is done, which this one never is.
  if (name !== 'responses') expect(seen.text).toBe(expected.text);
}

test.each(failures)('the failure %s has its kind and its sentence', (_, expected) => {
  const { kind, message } = readFailure(expected.status, expected.body, new Headers(), 0);
  expect({ kind, message }).toEqual({ kind: expected.kind as never, message: expected.message });
});

test('there are as many as there were', () => {
  expect([answers.length, failures.length]).toEqual([156, 87]);
});
