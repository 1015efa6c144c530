/**
 * Corrupts recorded answers: replaces values with unexpected JSON, truncates the answer, or drops,
 * repeats, and moves events. The adapters may throw only MalformedAnswer, and every event that they
 * write must parse. A failed run prints its seed and the shortest answer that reproduces it.
 */
import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../src/core/errors.ts';
import { parseJson } from '../../src/core/json.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicClientRequest } from '../../src/dialects/anthropic/client-request.ts';
import type { Adapter, ClientRequest } from '../../src/dialects/dialect.ts';
import { EventStreamReader } from '../../src/dialects/event-stream.ts';
import { MalformedAnswer } from '../../src/dialects/failure.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { fc } from '../support/random.ts';
import { type FullResponse, streamOf } from '../support/response-events.ts';
import { framesOf } from '../support/stream-checks/events.ts';
import { chatDialects, readExpectations, readFixture } from '../support/upstream-conformance.ts';

const body = {
  model: 'acme/chat',
  max_tokens: 50,
  messages: [{ role: 'user' as const, content: 'Hello!' }],
};
const source = { text: '', bytes: new Uint8Array() };
const clients: Readonly<Record<string, ClientRequest>> = {
  openai: openAiClientRequest(readChatRequest(body, source)),
  anthropic: anthropicClientRequest(readMessagesRequest(body, source), new Headers()),
};
const identity = { id: 'chatcmpl-0', model: 'acme/chat', provider: 'acme', created: 1_800_000_000 };
const broken = new GatewayError('upstream_error', 'The upstream failed.');
const usage = {
  inputTokens: 1,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 1,
  reasoningTokens: 0,
};

/** Raw JSON, because parsed values can't represent some of it. */
const unexpectedJson = [
  ...['null', 'true', '0', '-1', '1e9', '1e400', '9007199254740993', '-98765432109876543210'],
  ...['""', '"odd"', '"\\u0000"', '"\\ud800"', '"__proto__"', '"constructor"', '"tool_use"'],
  ...['[]', '{}', '[null]', '[{}]', '[[9007199254740993]]', '{"a":[{}]}', '{"constructor":null}'],
  ...['{"__proto__":{"x":1}}', '{"type":"text"}', '{"error":{"message":"inner"}}', 'NaN', '"\\n"'],
  `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
];

type Location = readonly [parent: Record<string, unknown>, name: string];

function locationsIn(value: unknown): Location[] {
  if (typeof value !== 'object' || value === null) return [];
  const parent = value as Record<string, unknown>;
  return Object.keys(parent).flatMap((name) => [[parent, name], ...locationsIn(parent[name])]);
}

/** Replaces some values with unexpected JSON. A pick has the indexes of a value and of its JSON. */
function corrupt(json: string, picks: readonly (readonly [number, number])[]): string {
  const value = parseJson(json);
  if (value === undefined) return json;
  const locations = locationsIn(value);
  const replacements = new Map<string, string>();
  for (const [location, replacement] of picks) {
    const [parent, name] = locations[location % locations.length] ?? [];
    const mark = `mark-${replacements.size}-mark`;
    const json = unexpectedJson[replacement % unexpectedJson.length] ?? 'null';
    replacements.set(JSON.stringify(mark), json);
    if (parent && name !== undefined) parent[name] = mark;
  }
  return JSON.stringify(value).replace(/"mark-\d-mark"/g, (mark) => replacements.get(mark) ?? mark);
}

const picks = fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 1, maxLength: 3 });
const change = fc.oneof(
  fc.record({ kind: fc.constant('corrupt' as const), at: fc.nat(), picks }),
  fc.record({ kind: fc.constantFrom('drop', 'repeat', 'move', 'cut'), at: fc.nat(), to: fc.nat() }),
);
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;

function changed(events: readonly string[], step: Change): readonly string[] {
  if (events.length === 0) return events;
  const at = step.at % events.length;
  const event = events[at] ?? '';
  if ('picks' in step) {
    const corrupted = event.replace(
      /^data: ([{[].*)$/m,
      (_, data) => `data: ${corrupt(data, step.picks)}`,
    );
    return events.with(at, corrupted);
  }
  const rest = events.toSpliced(at, 1);
  if (step.kind === 'drop') return rest;
  if (step.kind === 'repeat') return events.toSpliced(at, 0, event);
  if (step.kind === 'move') return rest.toSpliced(step.to % events.length, 0, event);
  return [...events.slice(0, at), event.slice(0, step.to % (event.length + 1))];
}

function transformStream(adapter: Adapter, text: string): void {
  const transform = adapter.transformStream(identity);
  const reader = new EventStreamReader();
  let out = '';
  const isUsable = isAccepted(() => {
    for (const message of [...reader.push(text), ...reader.end()]) out += transform.push(message);
  });
  const isComplete = isUsable && transform.finished && !transform.metrics.failure;
  out += isComplete ? transform.close({ usage, costCredits: 1 }) : transform.fail(broken);
  for (const { data } of framesOf(out)) if (data !== '[DONE]') JSON.parse(data);
}

function transformReply(adapter: Adapter, text: string): void {
  isAccepted(() => {
    const reply = adapter.transformReply(text, identity);
    if (!reply.ok) expect(reply.failure.message).not.toBe('');
    else JSON.parse(reply.value.write({ usage, costCredits: 1 }));
  });
}

/** Returns false if the answer is rejected as malformed. */
function isAccepted(transform: () => void): boolean {
  try {
    transform();
    return true;
  } catch (error) {
    if (error instanceof MalformedAnswer) return false;
    throw error;
  }
}

const pairs = chatDialects.flatMap((dialect) =>
  Object.entries(clients).map(([client, request]) => ({ dialect, client, request })),
);

const options = { numRuns: 600 };

test.each(pairs)(
  'corrupted $dialect answers for $client clients are written as valid events or fail as malformed',
  ({ dialect, request }) => {
    const adapter = request.adapterFor(dialect);
    if (!adapter) throw new Error(`There is no adapter for ${dialect}.`);
    const recorded = readExpectations(dialect);
    const textsOf = (isStream: boolean) =>
      recorded
        .filter(({ expected }) => expected.stream === isStream)
        .map(({ path }): [string, string] => [path, readFixture(path)]);
    const replies = new Map(textsOf(false));
    const streams = new Map(textsOf(true));
    if (dialect === 'openai-responses') {
      for (const [path, text] of replies)
        streams.set(path, streamOf(parseJson(text) as FullResponse));
    }
    const steps = fc.array(change, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(fc.constantFrom(...streams.keys()), steps, (path, all) => {
        const text = streams.get(path) ?? '';
        const events = text.split(/\r?\n\r?\n/).filter((event) => event !== '');
        transformStream(adapter, `${all.reduce(changed, events).join('\n\n')}\n\n`);
      }),
      options,
    );
    fc.assert(
      fc.property(fc.constantFrom(...replies.keys()), picks, (path, all) => {
        transformReply(adapter, corrupt(replies.get(path) ?? '', all));
      }),
      options,
    );
  },
  120_000,
);

const sse = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
const chunk = (call: object) =>
  sse({ id: 'x', choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }] });
const openings: Readonly<Record<string, (id: string, index: number) => string>> = {
  openai: (id, index) => chunk({ index, id, type: 'function', function: { name: 'look' } }),
  'openai-responses': (id, index) =>
    sse({
      type: 'response.output_item.added',
      output_index: index,
      item: { type: 'function_call', id, call_id: id, name: 'look', arguments: '' },
    }),
};
const nameless = (id: string, index: number) =>
  chunk({ index, id, type: 'function', function: { arguments: '{"a":"'.padEnd(10_000, 'x') } });

/** Returns how many events are accepted before the adapter rejects the answer. */
function eventsAccepted(adapter: Adapter | undefined, write: (at: number) => string): number {
  const transform = adapter?.transformStream(identity);
  const reader = new EventStreamReader();
  for (let index = 0; index < 5_000; index++) {
    try {
      for (const message of reader.push(write(index))) transform?.push(message);
    } catch (error) {
      expect(error).toBeInstanceOf(MalformedAnswer);
      return index;
    }
  }
  return Number.POSITIVE_INFINITY;
}

describe('an upstream that never stops calling tools', () => {
  const { openai, anthropic } = clients;
  const short = (at: number) => `call_${at}`;
  const long = (at: number) => `call_${at}`.padEnd(100_000, 'x');

  test.each([
    ['openai', 'openai', openai],
    ['openai', 'anthropic', anthropic],
    ['openai-responses', 'anthropic', anthropic],
  ] as const)('is rejected before it exhausts memory: %s to %s', (dialect, _, request) => {
    const adapter = request?.adapterFor(dialect);
    const open = openings[dialect];
    if (!open) throw new Error(`There is no opening of a call for ${dialect}.`);
    // One call may be sent while the others wait until it ends.
    expect([1_024, 1_025]).toContain(eventsAccepted(adapter, (at) => open(short(at), at)));
    // 41 of these IDs are 4 MB; the limit also includes the names.
    expect(eventsAccepted(adapter, (at) => open(long(at), at))).toBe(41);
  });

  test('is rejected if the arguments of calls without names are too long', () => {
    const adapter = anthropic?.adapterFor('openai');
    expect(eventsAccepted(adapter, (at) => nameless(short(at), at))).toBe(419);
  });
});
