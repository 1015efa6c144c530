import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../../tests/support/read-result.ts';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { type FullResponse, streamOf } from '../../../../tests/support/response-events.ts';
import { checkResponsesStream } from '../../../../tests/support/stream-checks.ts';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import { EventStreamReader } from '../../event-stream.ts';
import { echoOf } from '../client/response-object.ts';
import { readReply } from './reply.ts';
import { ResponsesPassThrough } from './stream.ts';

const echo = echoOf({ input: 'Hi' });
const newStream = () => new ResponsesPassThrough(identity, echo);
const settled = { usage: { ...noUsage, inputTokens: 50, outputTokens: 40 }, costCredits: 4 };

const message = {
  type: 'message',
  id: 'msg_up',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'Hello there', annotations: [] }],
};
const reasoning = {
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
const response = {
  id: 'resp_upstream',
  object: 'response',
  created_at: 5,
  model: 'gpt-secret',
  error: null,
  incomplete_details: null,
  status: 'completed',
  output: [reasoning, message, call],
  usage,
  novelty: { by: 'gpt-secret', n: 1 },
};

function push(text: string, passThrough = newStream()) {
  const reader = new EventStreamReader();
  const messages = [...reader.push(text), ...reader.end()];
  const output = messages.map((message) => passThrough.push(message)).join('');
  return { passThrough, output };
}

const stream = streamOf(response as unknown as FullResponse);
const events = stream.split(/(?<=\n\n)/);

/** The response for the client, with the gateway's ID and model, and with the cost. */
const expectedResponse = {
  ...response,
  id: 'resp_0123456789abcdef',
  created_at: 1_800_000_000,
  model: 'acme/large',
  novelty: { by: 'acme/large', n: 1 },
  usage: { ...usage, cost: 4 },
};

describe('ResponsesPassThrough', () => {
  test('changes only the identity, usage, and cost', () => {
    const { passThrough, output } = push(stream);
    expect(passThrough).toMatchObject({ started: true, finished: true });
    // The text of the reasoning, message, and call, and the name of the call.
    const outputCharacters = 4 + 11 + 7 + 4;
    expect(passThrough.metrics).toMatchObject({ finishReason: 'tool_calls', outputCharacters });
    expect(passThrough.metrics.usage).toMatchObject({ inputTokens: 18, cacheReadTokens: 32 });
    const text = output + passThrough.close(settled);
    for (const event of events.slice(2, -1)) expect(text).toContain(event);
    expect(text).not.toContain('resp_upstream');
    expect(text).not.toContain('gpt-secret');
    expect(checkResponsesStream(text)).toMatchObject({ ended: 'complete', text: 'Hello there' });
    const seen = text.trimEnd().split('\n').at(-1)?.slice('data: '.length) ?? '';
    expect(JSON.parse(seen)).toEqual({
      type: 'response.completed',
      sequence_number: events.length - 1,
      response: expectedResponse,
    });
  });

  test('fills an empty final output with earlier items', () => {
    const withOutput = (output: unknown) => ({ ...response, output }) as unknown as FullResponse;
    const last =
      streamOf(withOutput([]))
        .split(/(?<=\n\n)/)
        .at(-1) ?? '';
    expect(last).toContain('"output":[]');
    const done = events.filter((event) => event.includes('response.output_item.done'));
    // The items may end in any order.
    const reordered = [...events.slice(0, 2), ...done.toReversed(), last].join('');
    const { passThrough } = push(reordered);
    const seen = JSON.parse(passThrough.close(settled).split('\ndata: ')[1] ?? '');
    expect(seen.response.output).toMatchObject([
      { type: 'reasoning', id: 'rs_up', encrypted_content: 'gAAAA' },
      { type: 'message', id: 'msg_up' },
      { type: 'function_call', call_id: 'call_up', arguments: '{"a":1}' },
    ]);
    expect(passThrough.metrics).toMatchObject({ finishReason: 'tool_calls' });
  });

  test("counts text once when events lack their item's index", () => {
    const unindexed = stream.replaceAll(/"output_index":\d+,/g, '');
    expect(unindexed).not.toContain('output_index');
    expect(push(unindexed).passThrough.metrics.outputCharacters).toBe(4 + 11 + 7 + 4);
  });

  test('stores items only up to the size limit of one event', () => {
    const passThrough = newStream();
    const emit = (fields: object) =>
      passThrough.push({ event: null, data: JSON.stringify(fields) });
    const item = { type: 'message', content: [{ text: 'x'.repeat(1_500_000) }] };
    const done = { type: 'response.output_item.done', item };
    for (const output_index of [0, 1, 2]) emit({ ...done, output_index });
    emit({ type: 'response.completed', response: { ...response, output: [] } });
    expect(passThrough.close(settled)).toContain('"output":[]');
  });

  test('counts an image as one unit, regardless of its size', () => {
    const image = { type: 'image_generation_call', id: 'ig_up', status: 'completed' };
    const withImages = {
      ...response,
      output: [{ ...image, result: 'A'.repeat(2_000_000) }, image],
    };
    const { passThrough } = push(streamOf(withImages as unknown as FullResponse));
    expect(passThrough.metrics.outputCharacters).toBe(5_200);
    const reply = valueIn(readReply(JSON.stringify(withImages), identity, echo));
    expect(reply.metrics.outputCharacters).toBe(5_200);
  });

  test('holds the final event until its usage is settled', () => {
    const { output } = push(stream);
    expect(output).not.toContain('response.completed');
    expect(output).toEndWith(events.at(-2) ?? '');
  });

  test('writes the settled usage if the upstream sent none', () => {
    const { usage: _, ...uncounted } = response;
    const { passThrough } = push(streamOf(uncounted as unknown as FullResponse));
    expect(passThrough.metrics.usage).toBeUndefined();
    expect(passThrough.close(settled)).toContain('"input_tokens":50');
  });

  test('writes the settled usage if it is not what the upstream reported', () => {
    const { passThrough } = push(stream);
    const estimate = { ...noUsage, inputTokens: 50, outputTokens: 8 };
    const seen = passThrough.close({ usage: estimate, costCredits: 4 });
    expect(seen).toContain('"output_tokens":8,');
    expect(seen).not.toContain('"output_tokens":40');
  });

  test('preserves unknown events and long numbers', () => {
    const unknownEvent = '{"type":"response.novelty","sequence_number":2,"n":12345678901234567890}';
    const { output } = push(
      `${events.slice(0, 2).join('')}event: response.novelty\ndata: ${unknownEvent}\n\n`,
    );
    expect(output).toEndWith(`event: response.novelty\ndata: ${unknownEvent}\n\n`);
  });

  test('drops events before response.created', () => {
    const keepAlive = 'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n';
    const { passThrough, output } = push(keepAlive + stream);
    expect(output).toStartWith('event: response.created\n');
    const seen = checkResponsesStream(output + passThrough.close(settled));
    expect(seen).toMatchObject({ ended: 'complete', text: 'Hello there' });
  });

  test('renumbers events whose sequence numbers are not consecutive', () => {
    const unnumbered = stream.replace(/"sequence_number":\d+/g, '"sequence_number":0');
    const { passThrough, output } = push(unnumbered);
    const numbers = [...(output + passThrough.close(settled)).matchAll(/"sequence_number":(\d+)/g)];
    expect(numbers.map(([, number]) => Number(number))).toEqual(events.map((_, index) => index));
  });

  test('has not started after the opening events, so another provider can take over', () => {
    const { passThrough } = push(events.slice(0, 2).join(''));
    expect(passThrough.started).toBe(false);
    push(
      'event: error\ndata: {"type":"error","error":{"code":"insufficient_quota"}}\n\n',
      passThrough,
    );
    expect(passThrough).toMatchObject({ started: false, metrics: { failure: { kind: 'quota' } } });
  });

  test.each([
    ['an error', 'event: error\ndata: {"type":"error","message":"x","code":"server_error"}\n\n'],
    ['a failure', 'data: {"type":"response.failed","response":{"error":{"message":"x"}}}\n\n'],
    ['invalid JSON', 'data: {"type":\n\n'],
    [
      'a final event with an error',
      'data: {"type":"response.completed","response":{"error":"x"}}\n\n',
    ],
    ['an error without a type', 'data: {"error":{"message":"x"}}\n\n'],
    [
      'an opening event with an error',
      'data: {"type":"response.created","response":{"error":"x"}}\n\n',
    ],
  ])("fails on %s with the gateway's own message", (name, failure) => {
    const { passThrough, output } = push(events.slice(0, 7).join(''));
    expect(push(failure + events.slice(7).join(''), passThrough).output).toBe('');
    const kind = name === 'invalid JSON' ? 'malformed' : 'server';
    expect(passThrough.metrics.failure?.kind).toBe(kind);
    expect(passThrough.finished).toBe(false);
    const text =
      output + passThrough.fail(new GatewayError('upstream_error', 'The upstream failed.'));
    expect(checkResponsesStream(text)).toMatchObject({ ended: 'error', status: 'failed' });
    expect(text).not.toContain('gpt-secret');
  });

  test('fails on an error event that is not JSON', () => {
    const { passThrough } = push('event: error\ndata: upstream gone\n\n');
    expect(passThrough.metrics.failure).toMatchObject({ kind: 'server', message: 'upstream gone' });
  });

  test('is not finished if the stream is cut off at any point', () => {
    for (let length = 0; length < events.length; length += 1) {
      expect(push(events.slice(0, length).join('')).passThrough.finished).toBe(false);
    }
  });

  test('drops events with an invalid type', () => {
    const { output } = push(
      `${events.slice(0, 2).join('')}data: {"type":"a\\nevent: response.completed"}\n\n`,
    );
    expect(checkResponsesStream(output).ended).toBe('truncated');
  });

  test('forwards nothing after the end', () => {
    const { passThrough, output } = push(`${stream}data: [DONE]\n\n${events.slice(2, 6).join('')}`);
    expect(output).toEndWith(events.at(-2) ?? '');
    expect(passThrough.metrics.failure).toBeUndefined();
  });

  test('fails if an answer has too many items', () => {
    const item = (at: number) =>
      `data: {"type":"response.output_item.done","output_index":${at},"item":{}}\n\n`;
    const many = Array.from({ length: 5_000 }, (_, index) => item(index)).join('');
    expect(push(events.slice(0, 2).join('') + many).passThrough.metrics.failure?.kind).toBe(
      'malformed',
    );
  });
});

describe('readReply of a Responses upstream', () => {
  const read = (fields: object) =>
    readReply(JSON.stringify({ ...response, ...fields }), identity, echo);

  test('changes only the identity and the cost', () => {
    const reply = valueIn(read({}));
    expect(reply.metrics).toMatchObject({ finishReason: 'tool_calls', outputCharacters: 26 });
    expect(JSON.parse(reply.write(settled))).toEqual(expectedResponse);
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
    const upstreamResponse = { ...response, prompt_cache_key: 'another-name' };
    const reply = valueIn(readReply(JSON.stringify(upstreamResponse), identity, requested));
    expect(JSON.parse(reply.write(settled)).prompt_cache_key).toBe('case-4711');
    const passThrough = new ResponsesPassThrough(identity, requested);
    const { output } = push(streamOf(upstreamResponse as unknown as FullResponse), passThrough);
    const text = output + passThrough.close(settled);
    expect(text).toContain('"prompt_cache_key":"case-4711"');
    expect(text).not.toContain('another-name');
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
  const message = { type: 'message', id: 'msg_1', role: 'assistant', content: [] };
  const items = [message, call('c1', '{}'), call('c2', '{}')];
  const events = [
    { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
    { type: 'response.output_item.added', item: message },
    { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'Hi' },
    { type: 'response.output_item.done', item: message },
    { type: 'response.output_item.added', item: call('c1', '') },
    { type: 'response.function_call_arguments.delta', item_id: 'fc_c1', delta: '{}' },
    { type: 'response.output_item.done', item: call('c1', '{}') },
    { type: 'response.output_item.added', item: call('c2', '') },
    { type: 'response.output_item.done', item: call('c2', '{}') },
    {
      type: 'response.completed',
      response: { id: 'r', status: 'completed', output: items, usage },
    },
  ];
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  const { passThrough, output } = push(text);
  const clientEvents = (output + passThrough.close(settled))
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as ClientEvent);
  expect(clientEvents.map((event) => event.output_index)).toEqual([
    ...[undefined, 0, 0, 0, 1, 1, 1, 2, 2],
    undefined,
  ]);
  expect(clientEvents[2]?.content_index).toBe(0);
  const ids = [clientEvents[4], clientEvents[6], clientEvents[7], clientEvents[8]].map(
    (event) => event?.item?.id,
  );
  expect(ids).toEqual(['fc_c1', 'fc_c1', 'fc_c2', 'fc_c2']);
  const finalIds = clientEvents.at(-1)?.response?.output.map(({ id }) => id);
  expect(finalIds).toEqual(['msg_1', 'fc_c1', 'fc_c2']);
});

test("ResponsesPassThrough keeps the item id of llama.cpp's calls", () => {
  const item = { type: 'function_call', call_id: 'fc_a', name: 'look', arguments: '{}' };
  const event = JSON.stringify({ type: 'response.output_item.done', item });
  expect(push(`data: ${event}\n\n`).output).toContain('"id":"fc_a"');
});

test('ResponsesPassThrough adds indexes to events of items without IDs', () => {
  const item = (type: string) => ({ type: 'response.output_item.added', item: { type } });
  const events = [
    { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
    item('reasoning'),
    { type: 'response.reasoning_summary_text.delta', delta: 'Hm.' },
    item('message'),
    { type: 'response.output_text.delta', delta: 'Hi' },
    { type: 'response.output_item.done', item: { type: 'message', content: [] } },
  ];
  const { output } = push(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
  const clientEvents = output
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as ClientEvent);
  expect(clientEvents.slice(1)).toMatchObject([
    { output_index: 0 },
    { output_index: 0, summary_index: 0 },
    { output_index: 1 },
    { output_index: 1, content_index: 0 },
    { output_index: 1 },
  ]);
});

interface ClientEvent {
  readonly output_index?: number;
  readonly content_index?: number;
  readonly item?: { readonly id?: string };
  readonly response?: { readonly output: readonly { readonly id?: string }[] };
}
