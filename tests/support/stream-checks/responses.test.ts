import { describe, expect, test } from 'bun:test';
import { checkResponsesStream } from '../stream-checks.ts';

type Event = readonly [type: string, fields?: object];

/** Writes a stream with sequence numbers from 0. */
const stream = (...events: readonly Event[]) =>
  events
    .map(([type, fields], number) => {
      const data = JSON.stringify({ type, sequence_number: number, ...fields });
      return `event: ${type}\ndata: ${data}\n\n`;
    })
    .join('');

const names = { id: 'resp_1', object: 'response', model: 'acme/large', created_at: 1, error: null };
const inProgress = { ...names, status: 'in_progress', output: [], usage: null };
const begin: Event[] = [
  ['response.created', { response: inProgress }],
  ['response.in_progress', { response: inProgress }],
];
const usage = { input_tokens: 3, output_tokens: 1, total_tokens: 4 };
const end = (...output: readonly object[]): Event => [
  'response.completed',
  { response: { ...names, status: 'completed', output, usage, incomplete_details: null } },
];

const at = { item_id: 'msg_1', output_index: 0, content_index: 0 };
const part = (text: string) => ({ type: 'output_text', text, annotations: [] });
const message = { id: 'msg_1', type: 'message', role: 'assistant', content: [part('Hi')] };
const openedMessage: Event[] = [
  ['response.output_item.added', { output_index: 0, item: { ...message, content: [] } }],
  ['response.content_part.added', { ...at, part: part('') }],
  ['response.output_text.delta', { ...at, delta: 'Hi' }],
];
const textDone: Event = ['response.output_text.done', { ...at, text: 'Hi' }];
const closed: Event = ['response.content_part.done', { ...at, part: part('Hi') }];
const done: Event = ['response.output_item.done', { output_index: 0, item: message }];
const messageEvents: Event[] = [...openedMessage, textDone, closed, done];

const call = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'look' };
const callAt = { item_id: 'fc_1', output_index: 0 };
const callEvents = (json: string): Event[] => [
  ['response.output_item.added', { output_index: 0, item: { ...call, arguments: '' } }],
  ['response.function_call_arguments.delta', { ...callAt, delta: json }],
  ['response.function_call_arguments.done', { ...callAt, arguments: json }],
  ['response.output_item.done', { output_index: 0, item: { ...call, arguments: json } }],
];
const errorFields = { code: 'server_error', message: 'x' };
const failure: Event[] = [
  ['error', { ...errorFields, param: null, error: errorFields }],
  [
    'response.failed',
    { response: { ...names, status: 'failed', error: { code: 'a', message: 'x' }, output: [] } },
  ],
];

describe('checkResponsesStream', () => {
  test('reads a valid stream', () => {
    const text = stream(...begin, ...messageEvents, end(message));
    expect(checkResponsesStream(`: soon\n\n${text}`)).toMatchObject({
      ended: 'complete',
      status: 'completed',
      id: 'resp_1',
      text: 'Hi',
      usage,
    });
    const item = { ...call, arguments: '{"a":1}' };
    const seen = checkResponsesStream(stream(...begin, ...callEvents('{"a":1}'), end(item)));
    expect(seen.tools).toMatchObject([{ callId: 'call_1', name: 'look', input: '{"a":1}' }]);
  });

  test('distinguishes truncated and failed streams from complete ones', () => {
    expect(checkResponsesStream(stream(...begin, ...openedMessage)).ended).toBe('truncated');
    const failed = checkResponsesStream(stream(...begin, ...openedMessage, ...failure));
    expect(failed).toMatchObject({ ended: 'error', status: 'failed' });
  });

  const bad: Readonly<Record<string, string>> = {
    'an item before response.created': stream(...openedMessage),
    'an item without response.in_progress': stream(...begin.slice(0, 1), ...messageEvents),
    'a second response.created': stream(...begin, ...begin),
    'a sequence number with a gap': stream(...begin, ...messageEvents).replace(
      'number":3',
      'number":4',
    ),
    'a repeated sequence number': stream(...begin, ...messageEvents).replace(
      'number":3',
      'number":2',
    ),
    'a delta without an item': stream(...begin, ['response.output_text.delta', { ...at }]),
    'a delta with the ID of another item': stream(...begin, ...openedMessage, [
      'response.output_text.delta',
      { ...at, item_id: 'msg_2', delta: 'x' },
    ]),
    'an empty delta': stream(...begin, ...openedMessage, [
      'response.output_text.delta',
      { ...at, delta: '' },
    ]),
    'a message that starts in an open message': stream(...begin, ...openedMessage, [
      'response.output_item.added',
      { output_index: 1, item: { ...message, id: 'msg_2', content: [] } },
    ]),
    'an item index with a gap': stream(...begin, [
      'response.output_item.added',
      { output_index: 1, item: { ...message, content: [] } },
    ]),
    'a text that differs from its deltas': stream(...begin, ...openedMessage, [
      'response.output_text.done',
      { ...at, text: 'Ho' },
    ]),
    'a part that ends before its text': stream(...begin, ...openedMessage, closed),
    'an item that ends before its part': stream(...begin, ...openedMessage, textDone, done),
    'an end while an item is open': stream(
      ...begin,
      ...openedMessage,
      textDone,
      closed,
      end(message),
    ),
    'an output without its items': stream(...begin, end(message)),
    'an output that lacks an item': stream(...begin, ...messageEvents, end()),
    'arguments that are not JSON': stream(
      ...begin,
      ...callEvents('{"a":'),
      end({ ...call, arguments: '{"a":' }),
    ),
    'a status that differs from the event type': stream(...begin, ...messageEvents, [
      'response.incomplete',
      end(message)[1] ?? {},
    ]),
    'another ID at the end': stream(...begin, ...messageEvents, end(message)).replace(
      /resp_1(?!.*resp_1)/s,
      'resp_2',
    ),
    'an event after the end': stream(...begin, ...messageEvents, end(message), ...openedMessage),
    'an event after a failure': stream(...begin, ...failure, ...openedMessage),
    'a completed response after an error': stream(...begin, ...failure.slice(0, 1), end()),
    'an event name that differs from its type': stream(...begin).replace(
      'event: response.cr',
      'event: x.cr',
    ),
    '[DONE]': `${stream(...begin, end())}data: [DONE]\n\n`,
    'an incomplete event': stream(...begin).slice(0, -1),
  };
  test.each(Object.entries(bad))('rejects %s', (_, text) => {
    expect(() => checkResponsesStream(text)).toThrow();
  });
});
