import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../../tests/support/read-result.ts';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { streamOf, type WholeResponse } from '../../../../tests/support/response-events.ts';
import { checkResponsesStream } from '../../../../tests/support/stream-checks.ts';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import { EventStreamReader } from '../../events.ts';
import { echoOf } from '../client/response-object.ts';
import { readReply } from './reply.ts';
import { ResponsesPassThrough } from './stream.ts';

const echo = echoOf({ input: 'Hi' });
const newRelay = () => new ResponsesPassThrough(identity, echo);
const settled = { usage: { ...noUsage, inputTokens: 70, outputTokens: 8 }, costCredits: 4 };

const message = {
  type: 'message',
  id: 'msg_up',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'Hello there', annotations: [] }],
};
const thought = {
  type: 'reasoning',
  id: 'rs_up',
  encrypted_content: 'gAAAA',
  summary: [{ type: 'summary_text', text: 'Hmm.' }],
};
const call = {
  type: 'function_call',
  id: 'fc_up',
  call_id: 'call_up',
  name: 'look',
  arguments: '{"a":1}',
};
const usage = {
  input_tokens: 50,
  input_tokens_details: { cached_tokens: 32 },
  output_tokens: 40,
  output_tokens_details: { reasoning_tokens: 25 },
  total_tokens: 90,
};
const whole = {
  id: 'resp_upstream',
  object: 'response',
  created_at: 5,
  model: 'gpt-secret',
  error: null,
  incomplete_details: null,
  status: 'completed',
  output: [thought, message, call],
  usage,
  novelty: { by: 'gpt-secret', n: 1 },
};

function push(text: string, relay = newRelay()) {
  const reader = new EventStreamReader();
  const said = [...reader.push(text), ...reader.end()].map((one) => relay.push(one)).join('');
  return { relay, said };
}

const stream = streamOf(whole as unknown as WholeResponse);
const events = stream.split(/(?<=\n\n)/);

/** The same response with our id and model, and with its cost. */
const ours = {
  ...whole,
  id: 'resp_0123456789abcdef',
  created_at: 1_800_000_000,
  model: 'acme/large',
  novelty: { by: 'acme/large', n: 1 },
  usage: { ...usage, cost: 4 },
};

describe('ResponsesPassThrough', () => {
  test('changes only the identity, usage and cost', () => {
    const { relay, said } = push(stream);
    expect(relay).toMatchObject({ started: true, finished: true });
    // The words of thought, message and call, and the name of the call.
    const outputCharacters = 4 + 11 + 7 + 4;
    expect(relay.metrics).toMatchObject({ finishReason: 'tool_calls', outputCharacters });
    expect(relay.metrics.usage).toMatchObject({ inputTokens: 18, cacheReadTokens: 32 });
    const text = said + relay.close(settled);
    for (const event of events.slice(2, -1)) expect(text).toContain(event);
    expect(text).not.toContain('resp_upstream');
    expect(text).not.toContain('gpt-secret');
    expect(checkResponsesStream(text)).toMatchObject({ ended: 'complete', text: 'Hello there' });
    const seen = text.trimEnd().split('\n').at(-1)?.slice('data: '.length) ?? '';
    expect(JSON.parse(seen)).toEqual({
      type: 'response.completed',
      sequence_number: events.length - 1,
      response: ours,
    });
  });

  test('fills an empty final output with earlier items', () => {
    const hollow = (output: unknown) => ({ ...whole, output }) as unknown as WholeResponse;
    const last =
      streamOf(hollow([]))
        .split(/(?<=\n\n)/)
        .at(-1) ?? '';
    expect(last).toContain('"output":[]');
    const done = events.filter((event) => event.includes('response.output_item.done'));
    // The items may end in any order.
    const told = [...events.slice(0, 2), ...done.toReversed(), last].join('');
    const { relay } = push(told);
    const seen = JSON.parse(relay.close(settled).split('\ndata: ')[1] ?? '');
    expect(seen.response.output).toMatchObject([
      { type: 'reasoning', id: 'rs_up', encrypted_content: 'gAAAA' },
      { type: 'message', id: 'msg_up' },
      { type: 'function_call', call_id: 'call_up', arguments: '{"a":1}' },
    ]);
    expect(relay.metrics).toMatchObject({ finishReason: 'tool_calls' });
  });

  test("counts text once when events lack their item's index", () => {
    const placeless = stream.replaceAll(/"output_index":\d+,/g, '');
    expect(placeless).not.toContain('output_index');
    expect(push(placeless).relay.metrics.outputCharacters).toBe(4 + 11 + 7 + 4);
  });

  test("stores at most one event's worth of items", () => {
    const relay = newRelay();
    const emit = (fields: object) => relay.push({ event: null, data: JSON.stringify(fields) });
    const item = { type: 'message', content: [{ text: 'x'.repeat(1_500_000) }] };
    const done = { type: 'response.output_item.done', item };
    for (const output_index of [0, 1, 2]) emit({ ...done, output_index });
    emit({ type: 'response.completed', response: { ...whole, output: [] } });
    expect(relay.close(settled)).toContain('"output":[]');
  });

  test('counts an image as one unit, whatever its size', () => {
    const picture = { type: 'image_generation_call', id: 'ig_up', status: 'completed' };
    const drawn = { ...whole, output: [{ ...picture, result: 'A'.repeat(2_000_000) }, picture] };
    const { relay } = push(streamOf(drawn as unknown as WholeResponse));
    expect(relay.metrics.outputCharacters).toBe(5_200);
    const reply = valueIn(readReply(JSON.stringify(drawn), identity, echo));
    expect(reply.metrics.outputCharacters).toBe(5_200);
  });

  test('holds the final event until its usage is settled', () => {
    const { said } = push(stream);
    expect(said).not.toContain('response.completed');
    expect(said).toEndWith(events.at(-2) ?? '');
  });

  test('writes the settled usage if the upstream sent none', () => {
    const { usage: _, ...uncounted } = whole;
    const { relay } = push(streamOf(uncounted as unknown as WholeResponse));
    expect(relay.metrics.usage).toBeUndefined();
    expect(relay.close(settled)).toContain('"input_tokens":70');
  });

  test('preserves unknown events and long numbers', () => {
    const odd = '{"type":"response.novelty","sequence_number":2,"n":12345678901234567890}';
    const { said } = push(
      `${events.slice(0, 2).join('')}event: response.novelty\ndata: ${odd}\n\n`,
    );
    expect(said).toEndWith(`event: response.novelty\ndata: ${odd}\n\n`);
  });

  test('drops events before response.created', () => {
    const alive = 'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n';
    const { relay, said } = push(alive + stream);
    expect(said).toStartWith('event: response.created\n');
    const seen = checkResponsesStream(said + relay.close(settled));
    expect(seen).toMatchObject({ ended: 'complete', text: 'Hello there' });
  });

  test('renumbers events whose sequence numbers are not consecutive', () => {
    const unnumbered = stream.replace(/"sequence_number":\d+/g, '"sequence_number":0');
    const { relay, said } = push(unnumbered);
    const numbers = [...(said + relay.close(settled)).matchAll(/"sequence_number":(\d+)/g)];
    expect(numbers.map(([, number]) => Number(number))).toEqual(events.map((_, at) => at));
  });

  test('has not started after the opening events, so another provider can take over', () => {
    const { relay } = push(events.slice(0, 2).join(''));
    expect(relay.started).toBe(false);
    push('event: error\ndata: {"type":"error","error":{"code":"insufficient_quota"}}\n\n', relay);
    expect(relay).toMatchObject({ started: false, metrics: { failure: { kind: 'quota' } } });
  });

  test.each([
    ['an error', 'event: error\ndata: {"type":"error","message":"x","code":"server_error"}\n\n'],
    ['a failure', 'data: {"type":"response.failed","response":{"error":{"message":"x"}}}\n\n'],
    ['no JSON', 'data: {"type":\n\n'],
    ['an end that failed', 'data: {"type":"response.completed","response":{"error":"x"}}\n\n'],
    ['an error without a type', 'data: {"error":{"message":"x"}}\n\n'],
    ['a beginning that failed', 'data: {"type":"response.created","response":{"error":"x"}}\n\n'],
  ])('fails at %s with our own message', (what, broken) => {
    const { relay, said } = push(events.slice(0, 7).join(''));
    expect(push(broken + events.slice(7).join(''), relay).said).toBe('');
    const kind = what === 'no JSON' ? 'malformed' : 'server';
    expect(relay.metrics.failure?.kind).toBe(kind);
    expect(relay.finished).toBe(false);
    const text = said + relay.fail(new GatewayError('upstream_error', 'It broke.'));
    expect(checkResponsesStream(text)).toMatchObject({ ended: 'error', status: 'failed' });
    expect(text).not.toContain('gpt-secret');
  });

  test('fails at an error event that is not JSON', () => {
    const { relay } = push('event: error\ndata: upstream gone\n\n');
    expect(relay.metrics.failure).toMatchObject({ kind: 'server', message: 'upstream gone' });
  });

  test('is not finished if it is cut off anywhere', () => {
    for (let length = 0; length < events.length; length += 1) {
      expect(push(events.slice(0, length).join('')).relay.finished).toBe(false);
    }
  });

  test('drops events with an invalid type', () => {
    const { said } = push(
      `${events.slice(0, 2).join('')}data: {"type":"a\\nevent: response.completed"}\n\n`,
    );
    expect(checkResponsesStream(said).ended).toBe('cut');
  });

  test('forwards nothing after its end', () => {
    const { relay, said } = push(`${stream}data: [DONE]\n\n${events.slice(2, 6).join('')}`);
    expect(said).toEndWith(events.at(-2) ?? '');
    expect(relay.metrics.failure).toBeUndefined();
  });

  test('fails at an endless number of items', () => {
    const item = (at: number) =>
      `data: {"type":"response.output_item.done","output_index":${at},"item":{}}\n\n`;
    const many = Array.from({ length: 5_000 }, (_, at) => item(at)).join('');
    expect(push(events.slice(0, 2).join('') + many).relay.metrics.failure?.kind).toBe('malformed');
  });
});

describe('readReply of a Responses upstream', () => {
  const read = (fields: object) =>
    readReply(JSON.stringify({ ...whole, ...fields }), identity, echo);

  test('changes only the identity and the cost', () => {
    const reply = valueIn(read({}));
    expect(reply.metrics).toMatchObject({ finishReason: 'tool_calls', outputCharacters: 26 });
    expect(JSON.parse(reply.write(settled))).toEqual(ours);
  });

  test.each([
    ['completed', null, [message], 'stop'],
    ['incomplete', { reason: 'max_output_tokens' }, [message], 'length'],
    ['incomplete', { reason: 'content_filter' }, [], 'content_filter'],
  ])(
    'records the finish reason of a response that is %s because of %j',
    (status, details, output, finishReason) => {
      const reply = valueIn(read({ status, incomplete_details: details, output }));
      expect(reply.metrics.finishReason).toBe(finishReason);
    },
  );

  test.each([
    [{ status: 'failed', error: { code: 'server_error', message: 'x' } }, 'server'],
    [{ status: 'cancelled' }, 'server'],
    [{ status: 'queued' }, 'malformed'],
    [{ error: { message: 'x', code: 'rate_limit_exceeded' } }, 'rate_limited'],
  ])('returns a failure for %j', (fields, kind) => {
    expect(failureIn(read(fields))).toMatchObject({ kind });
  });

  test("keeps the client's prompt_cache_key", () => {
    const requested = echoOf({ input: 'Hi', prompt_cache_key: 'case-4711' });
    const told = { ...whole, prompt_cache_key: 'another-name' };
    const reply = valueIn(readReply(JSON.stringify(told), identity, requested));
    expect(JSON.parse(reply.write(settled)).prompt_cache_key).toBe('case-4711');
    const relay = new ResponsesPassThrough(identity, requested);
    const { said } = push(streamOf(told as unknown as WholeResponse), relay);
    const heard = said + relay.close(settled);
    expect(heard).toContain('"prompt_cache_key":"case-4711"');
    expect(heard).not.toContain('another-name');
  });

  test('returns a failure for a truncated body', () => {
    const cut = readReply('{"id":"resp_1","outp', identity, echo);
    expect(failureIn(cut)).toMatchObject({ kind: 'malformed' });
  });
});

test('ResponsesPassThrough adds missing indexes of items and parts', () => {
  const call = (id: string, json: string) => ({
    type: 'function_call',
    call_id: id,
    name: 'look',
    arguments: json,
  });
  const told = { type: 'message', id: 'msg_1', role: 'assistant', content: [] };
  const output = [told, call('c1', '{}'), call('c2', '{}')];
  const events = [
    { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
    { type: 'response.output_item.added', item: told },
    { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'Hi' },
    { type: 'response.output_item.done', item: told },
    { type: 'response.output_item.added', item: call('c1', '') },
    { type: 'response.function_call_arguments.delta', item_id: 'fc_c1', delta: '{}' },
    { type: 'response.output_item.done', item: call('c1', '{}') },
    { type: 'response.output_item.added', item: call('c2', '') },
    { type: 'response.output_item.done', item: call('c2', '{}') },
    { type: 'response.completed', response: { id: 'r', status: 'completed', output, usage } },
  ];
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  const { relay, said } = push(text);
  const heard = (said + relay.close(settled))
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as Heard);
  expect(heard.map((event) => event.output_index)).toEqual([
    ...[undefined, 0, 0, 0, 1, 1, 1, 2, 2],
    undefined,
  ]);
  expect(heard[2]?.content_index).toBe(0);
  const ids = [heard[4], heard[6], heard[7], heard[8]].map((event) => event?.item?.id);
  expect(ids).toEqual(['fc_c1', 'fc_c1', 'fc_c2', 'fc_c2']);
  const whole = heard.at(-1)?.response?.output.map(({ id }) => id);
  expect(whole).toEqual(['msg_1', 'fc_c1', 'fc_c2']);
});

test("ResponsesPassThrough keeps the item id of llama.cpp's calls", () => {
  const item = { type: 'function_call', call_id: 'fc_a', name: 'look', arguments: '{}' };
  const event = JSON.stringify({ type: 'response.output_item.done', item });
  expect(push(`data: ${event}\n\n`).said).toContain('"id":"fc_a"');
});

test('ResponsesPassThrough adds indexes to events of items without ids', () => {
  const item = (type: string) => ({ type: 'response.output_item.added', item: { type } });
  const events = [
    { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
    item('reasoning'),
    { type: 'response.reasoning_summary_text.delta', delta: 'Hm.' },
    item('message'),
    { type: 'response.output_text.delta', delta: 'Hi' },
    { type: 'response.output_item.done', item: { type: 'message', content: [] } },
  ];
  const { said } = push(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
  const heard = said
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as Heard);
  expect(heard.slice(1)).toMatchObject([
    { output_index: 0 },
    { output_index: 0, summary_index: 0 },
    { output_index: 1 },
    { output_index: 1, content_index: 0 },
    { output_index: 1 },
  ]);
});

interface Heard {
  readonly output_index?: number;
  readonly content_index?: number;
  readonly item?: { readonly id?: string };
  readonly response?: { readonly output: readonly { readonly id?: string }[] };
}
