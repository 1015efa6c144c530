/**
 * Recorded answers with a place or two replaced by raw JSON that no schema foresaw, cut anywhere,
 * with events lost, doubled and moved. Whatever comes of it: no exception but the one for what no
 * client can use, and every event that the client gets can be read. A failure prints its seed and
 * the shortest answer that shows it.
 */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { DialectName } from '../../src/config/provider-schema.ts';
import { GatewayError } from '../../src/core/errors.ts';
import { parseJson } from '../../src/core/json.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicClientRequest } from '../../src/dialects/anthropic/client-request.ts';
import type { Adapter, ClientRequest } from '../../src/dialects/dialect.ts';
import { EventStreamReader } from '../../src/dialects/events.ts';
import { MalformedAnswer } from '../../src/dialects/failure.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { streamOf, type WholeResponse } from '../support/response-events.ts';
import { framesOf } from '../support/stream-checks/events.ts';
import { readExpectations, readFixture } from '../support/upstream-conformance.ts';

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
const broken = new GatewayError('upstream_error', 'It broke.');
const usage = {
  inputTokens: 1,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 1,
  reasoningTokens: 0,
};

/** As text, because some of it is no value that a program could hold. */
const oddities = [
  ...['null', 'true', '0', '-1', '1e9', '1e400', '9007199254740993', '-98765432109876543210'],
  ...['""', '"odd"', '"\\u0000"', '"\\ud800"', '"__proto__"', '"constructor"', '"tool_use"'],
  ...['[]', '{}', '[null]', '[{}]', '[[9007199254740993]]', '{"a":[{}]}', '{"constructor":null}'],
  ...['{"__proto__":{"x":1}}', '{"type":"text"}', '{"error":{"message":"inner"}}', 'NaN', '"\\n"'],
  `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
];

type Place = readonly [holder: Record<string, unknown>, name: string];

function placesIn(value: unknown): Place[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((name) => [[holder, name], ...placesIn(holder[name])]);
}

/** The text with oddities at some of its places; `picks` choose which at which. */
function spoil(json: string, picks: readonly (readonly [number, number])[]): string {
  const value = parseJson(json);
  if (value === undefined) return json;
  const places = placesIn(value);
  const odd = new Map<string, string>();
  for (const [where, what] of picks) {
    const [holder, name] = places[where % places.length] ?? [];
    const mark = `odd-${odd.size}-odd`;
    odd.set(JSON.stringify(mark), oddities[what % oddities.length] ?? 'null');
    if (holder && name !== undefined) holder[name] = mark;
  }
  return JSON.stringify(value).replace(/"odd-\d-odd"/g, (mark) => odd.get(mark) ?? mark);
}

const picks = fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 1, maxLength: 3 });
const change = fc.oneof(
  fc.record({ how: fc.constant('spoil' as const), at: fc.nat(), picks }),
  fc.record({ how: fc.constantFrom('drop', 'double', 'move', 'cut'), at: fc.nat(), to: fc.nat() }),
);
type Change = typeof change extends fc.Arbitrary<infer Kind> ? Kind : never;

function changed(events: readonly string[], step: Change): readonly string[] {
  if (events.length === 0) return events;
  const at = step.at % events.length;
  const event = events[at] ?? '';
  if ('picks' in step) {
    const spoiled = event.replace(
      /^data: ([{[].*)$/m,
      (_, data) => `data: ${spoil(data, step.picks)}`,
    );
    return events.with(at, spoiled);
  }
  const rest = events.toSpliced(at, 1);
  if (step.how === 'drop') return rest;
  if (step.how === 'double') return events.toSpliced(at, 0, event);
  if (step.how === 'move') return rest.toSpliced(step.to % events.length, 0, event);
  return [...events.slice(0, at), event.slice(0, step.to % (event.length + 1))];
}

function hearStream(crossing: Adapter, text: string): void {
  const relay = crossing.transformStream(identity);
  const reader = new EventStreamReader();
  let out = '';
  const isUsable = canHear(() => {
    for (const message of [...reader.push(text), ...reader.end()]) out += relay.push(message);
  });
  const isWhole = isUsable && relay.finished && !relay.metrics.failure;
  out += isWhole ? relay.close({ usage, costCredits: 1 }) : relay.fail(broken);
  for (const { data } of framesOf(out)) if (data !== '[DONE]') JSON.parse(data);
}

function hearWhole(crossing: Adapter, text: string): void {
  canHear(() => {
    const reply = crossing.transformReply(text, identity);
    if (!reply.ok) expect(reply.failure.message).not.toBe('');
    else JSON.parse(reply.value.write({ usage, costCredits: 1 }));
  });
}

/** False for an answer that is refused while it is heard. */
function canHear(hear: () => void): boolean {
  try {
    hear();
    return true;
  } catch (error) {
    if (error instanceof MalformedAnswer) return false;
    throw error;
  }
}

const dialects: readonly DialectName[] = [
  ...(['openai', 'anthropic', 'gemini', 'bedrock', 'openai-responses'] as const),
];
const ways = dialects.flatMap((dialect) =>
  Object.entries(clients).map(([client, conversation]) => ({ dialect, client, conversation })),
);

const options = { seed: 20_261_115, numRuns: 600 };

test.each(ways)(
  'spoiled answers of $dialect reach a client of $client as answers or failures',
  ({ dialect, conversation }) => {
    const crossing = conversation.adapterFor(dialect);
    if (!crossing) throw new Error(`There is no way to ${dialect}.`);
    const recorded = readExpectations(dialect);
    const textsOf = (isStream: boolean) =>
      recorded
        .filter(({ expected }) => expected.stream === isStream)
        .map(({ path }): [string, string] => [path, readFixture(path)]);
    const wholes = new Map(textsOf(false));
    const streams = new Map(textsOf(true));
    if (dialect === 'openai-responses') {
      for (const [path, text] of wholes)
        streams.set(path, streamOf(parseJson(text) as WholeResponse));
    }
    const steps = fc.array(change, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(fc.constantFrom(...streams.keys()), steps, (path, all) => {
        const text = streams.get(path) ?? '';
        const events = text.split(/\r?\n\r?\n/).filter((event) => event !== '');
        hearStream(crossing, `${all.reduce(changed, events).join('\n\n')}\n\n`);
      }),
      options,
    );
    fc.assert(
      fc.property(fc.constantFrom(...wholes.keys()), picks, (path, all) => {
        hearWhole(crossing, spoil(wholes.get(path) ?? '', all));
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

/** How many events are heard before somebody has had enough. */
function eventsHeard(crossing: Adapter | undefined, write: (at: number) => string): number {
  const relay = crossing?.transformStream(identity);
  const reader = new EventStreamReader();
  for (let at = 0; at < 5_000; at++) {
    try {
      for (const message of reader.push(write(at))) relay?.push(message);
    } catch (error) {
      expect(error).toBeInstanceOf(MalformedAnswer);
      return at;
    }
  }
  return Number.POSITIVE_INFINITY;
}

describe('an upstream that never stops calling tools is stopped before it fills the memory', () => {
  const { openai, anthropic } = clients;
  const short = (at: number) => `call_${at}`;
  const long = (at: number) => `call_${at}`.padEnd(100_000, 'x');

  test.each([
    ['openai', 'openai', openai],
    ['openai', 'anthropic', anthropic],
    ['openai-responses', 'anthropic', anthropic],
  ] as const)('%s to %s', (dialect, _, conversation) => {
    const crossing = conversation?.adapterFor(dialect);
    const open = openings[dialect];
    if (!open) throw new Error('Nobody knows how it opens a call.');
    // One call may be told while the others wait for its end.
    expect([1_024, 1_025]).toContain(eventsHeard(crossing, (at) => open(short(at), at)));
    // Forty-one of them are 4 MB, and a little is their names.
    expect(eventsHeard(crossing, (at) => open(long(at), at))).toBe(41);
  });

  test('arguments of calls without names wait only so long', () => {
    const crossing = anthropic?.adapterFor('openai');
    expect(eventsHeard(crossing, (at) => nameless(short(at), at))).toBe(419);
  });
});
