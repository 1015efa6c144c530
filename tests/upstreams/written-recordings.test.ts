/**
 * Hand-written answers of OpenAI-style vendors, sent through a running gateway to every client: in
 * one piece, byte by byte, and cut after every event. The expectations in
 * `fixtures/written/expect.json` were worked out by hand. Prices: 2 credits per input token, 1 per
 * cached token, 3 per output token.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { promptTokens } from '../../src/core/usage.ts';
import { readFailure } from '../../src/dialects/failure.ts';
import {
  readAnthropicAnswer,
  readOpenAiAnswer,
  readResponsesAnswer,
} from '../support/client-answers.ts';
import { type ReplayOptions, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
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
  /** The link that replaces an image for clients whose format has images only as bytes. */
  readonly image_link?: string;
  /** Null for a failure. */
  readonly finish_reason: string | null;
  readonly stop_reason: string | null;
  /** Null if the upstream reports no usage, which is then estimated. */
  readonly usage: Readonly<Record<string, number>> | null;
  /** Part of the error message. */
  readonly error?: string;
  /** The number of events after which the answer is complete. If omitted, it never is. */
  readonly events_until_complete?: number;
  /** The same number for clients that read only one choice. */
  readonly events_until_first_choice_complete?: number;
  /** True if the first event alone looks like a complete answer. */
  readonly first_event_looks_complete?: boolean;
  /** Texts that a client of the same dialect receives unchanged. */
  readonly forwarded_texts?: readonly string[];
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
type ClientName = keyof typeof clients;
const names: readonly ClientName[] = ['openai', 'anthropic', 'responses'];

/** Returns what a client receives when the upstream sends these bytes. */
async function send(
  name: ClientName,
  { dialect }: Expected,
  bytes: string,
  { stream, ...options }: ReplayOptions & { readonly stream: boolean },
) {
  upstream.script('written', replay(bytes, options));
  const { path, body } = clients[name];
  const request = { model: `test/${dialect}`, stream, ...body };
  return gateway.post(request, { path });
}

const pieces = ['whole', 'byte by byte'] as const;

describe.each(answers)('the written answer %s', (file, expected) => {
  const raw = readText(file);
  const contentType =
    expected.content_type ?? (isStream(file) ? 'text/event-stream' : 'application/json');

  test.each(names)(
    'reaches the %s client as expected, in one piece and byte by byte',
    async (name) => {
      // An upstream may answer a stream request with a JSON error, but not with a JSON answer.
      const forms = isStream(file)
        ? [true]
        : expected.error === undefined
          ? [false]
          : [false, true];
      const variants = pieces.flatMap((piece) => forms.map((stream) => ({ piece, stream })));
      for (const variant of variants) {
        const options = { contentType, streamed: true, ...variant };
        const reply = await send(name, expected, raw, options);
        if (expected.error !== undefined)
          await expectFailure(reply, name, expected, expected.error);
        else await expectAnswer(reply, name, file, expected);
      }
    },
  );

  if (!isStream(file)) return;
  test.each(names)(
    'is complete for the %s client only after its last required event',
    async (name) => {
      const events = raw.split(/(?<=\n\n|\r\n\r\n|\r\r)/);
      const { events_until_complete: all } = expected;
      const { events_until_first_choice_complete: first = all } = expected;
      const required = (name === 'openai' ? all : first) ?? Number.POSITIVE_INFINITY;
      for (let length = 0; length < events.length; length += 1) {
        const cut = events.slice(0, length).join('');
        const reply = await send(name, expected, cut, { contentType, stream: true });
        const ended = reply.status === 200 ? clients[name].check(reply.text).ended : 'error';
        const isComplete =
          length >= required || (length === 1 && expected.first_event_looks_complete);
        expect({ length, ended }).toEqual({ length, ended: isComplete ? 'complete' : 'error' });
      }
    },
  );
});

type Reply = Awaited<ReturnType<typeof send>>;

async function expectAnswer(reply: Reply, name: ClientName, file: string, expected: Expected) {
  expect(reply.status).toBe(200);
  const seen = clients[name].see(reply.text, isStream(file));
  // Anthropic's format has no field for a refusal, so it's text.
  const { refusal = '', forwarded_texts: forwarded = [], image_link: link } = expected;
  const answerText = name === 'anthropic' ? expected.text + refusal : expected.text;
  const text = name === 'openai' ? answerText : answerText + (link ?? '');
  expect({ text: seen.text, reasoning: seen.reasoning, finish: seen.finish }).toEqual({
    text,
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
  if (name === 'openai') for (const part of forwarded) expect(reply.text).toContain(part);
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

async function expectFailure(reply: Reply, name: ClientName, expected: Expected, message: string) {
  const record = await gateway.record(reply.requestId);
  expect(record.status).toBe('error');
  if (reply.status !== 200) {
    expect(reply.error.message).toContain(message);
    expect(record.charges.modelCharge).toBe(0);
    return;
  }
  const seen = clients[name].check(reply.text);
  expect(seen.ended).toBe('error');
  expect(seen.error?.message).toContain(message);
  // The Responses checker reads text from the completed part, which this answer never has.
  if (name !== 'responses') expect(seen.text).toBe(expected.text);
}

test.each(failures)(
  'readFailure classifies the written failure %s and reads its message',
  (_, expected) => {
    const { kind, message } = readFailure(expected.status, expected.body, new Headers(), 0);
    expect({ kind, message }).toEqual({ kind: expected.kind as never, message: expected.message });
  },
);

test('the number of written answers and failures is unchanged', () => {
  expect([answers.length, failures.length]).toEqual([160, 87]);
});
