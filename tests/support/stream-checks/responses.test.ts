import { describe, expect, test } from 'bun:test';
import { checkResponsesStream } from '../stream-checks.ts';

type Event = readonly [type: string, fields?: object];

/** Numbered from 0. */
const stream = (...events: readonly Event[]) =>
  events
    .map(([type, fields], number) => {
      const data = JSON.stringify({ type, sequence_number: number, ...fields });
      return `event: ${type}\ndata: ${data}\n\n`;
    })
    .join('');

const names = { id: 'resp_1', object: 'response', model: 'acme/large', created_at: 1, error: null };
const begun = { ...names, status: 'in_progress', output: [], usage: null };
const begin: Event[] = [
  ['response.created', { response: begun }],
  ['response.in_progress', { response: begun }],
];
const usage = { input_tokens: 3, output_tokens: 1, total_tokens: 4 };
const end = (...output: readonly object[]): Event => [
  'response.completed',
  { response: { ...names, status: 'completed', output, usage, incomplete_details: null } },
];

const at = { item_id: 'msg_1', output_index: 0, content_index: 0 };
const part = (text: string) => ({ type: 'output_text', text, annotations: [] });
const message = { id: 'msg_1', type: 'message', role: 'assistant', content: [part('Hi')] };
const opened: Event[] = [
  ['response.output_item.added', { output_index: 0, item: { ...message, content: [] } }],
  ['response.content_part.added', { ...at, part: part('') }],
  ['response.output_text.delta', { ...at, delta: 'Hi' }],
];
const told: Event = ['response.output_text.done', { ...at, text: 'Hi' }];
const closed: Event = ['response.content_part.done', { ...at, part: part('Hi') }];
const done: Event = ['response.output_item.done', { output_index: 0, item: message }];
const said: Event[] = [...opened, told, closed, done];

const call = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'look' };
const callAt = { item_id: 'fc_1', output_index: 0 };
const called = (json: string): Event[] => [
  ['response.output_item.added', { output_index: 0, item: { ...call, arguments: '' } }],
  ['response.function_call_arguments.delta', { ...callAt, delta: json }],
  ['response.function_call_arguments.done', { ...callAt, arguments: json }],
  ['response.output_item.done', { output_index: 0, item: { ...call, arguments: json } }],
];
const complaint = { code: 'server_error', message: 'x' };
const failure: Event[] = [
  ['error', { ...complaint, param: null, error: complaint }],
  [
    'response.failed',
    { response: { ...names, status: 'failed', error: { code: 'a', message: 'x' }, output: [] } },
  ],
];

describe('the checker of streamed responses', () => {
  test('reads a good one', () => {
    const text = stream(...begin, ...said, end(message));
    expect(checkResponsesStream(`: soon\n\n${text}`)).toMatchObject({
      ended: 'complete',
      status: 'completed',
      id: 'resp_1',
      text: 'Hi',
      usage,
    });
    const item = { ...call, arguments: '{"a":1}' };
    const seen = checkResponsesStream(stream(...begin, ...called('{"a":1}'), end(item)));
    expect(seen.tools).toMatchObject([{ callId: 'call_1', name: 'look', input: '{"a":1}' }]);
  });

  test('tells a cut and a failed one from a whole one', () => {
    expect(checkResponsesStream(stream(...begin, ...opened)).ended).toBe('cut');
    const failed = checkResponsesStream(stream(...begin, ...opened, ...failure));
    expect(failed).toMatchObject({ ended: 'error', status: 'failed' });
  });

  const bad: Readonly<Record<string, string>> = {
    'words before the beginning': stream(...opened),
    'a beginning without response.in_progress': stream(...begin.slice(0, 1), ...said),
    'two beginnings': stream(...begin, ...begin),
    'a number that skips': stream(...begin, ...said).replace('number":3', 'number":4'),
    'a number that repeats': stream(...begin, ...said).replace('number":3', 'number":2'),
    'a delta without an item': stream(...begin, ['response.output_text.delta', { ...at }]),
    'a delta of another item': stream(...begin, ...opened, [
      'response.output_text.delta',
      { ...at, item_id: 'msg_2', delta: 'x' },
    ]),
    'an empty delta': stream(...begin, ...opened, [
      'response.output_text.delta',
      { ...at, delta: '' },
    ]),
    'a message inside another': stream(...begin, ...opened, [
      'response.output_item.added',
      { output_index: 1, item: { ...message, id: 'msg_2', content: [] } },
    ]),
    'a place that skips': stream(...begin, [
      'response.output_item.added',
      { output_index: 1, item: { ...message, content: [] } },
    ]),
    'a text that is not what was said': stream(...begin, ...opened, [
      'response.output_text.done',
      { ...at, text: 'Ho' },
    ]),
    'a part that ends before its text': stream(...begin, ...opened, closed),
    'an item that ends before its part': stream(...begin, ...opened, told, done),
    'an end while an item is open': stream(...begin, ...opened, told, closed, end(message)),
    'an output that was not told': stream(...begin, end(message)),
    'an output that lost an item': stream(...begin, ...said, end()),
    'arguments that do not parse': stream(
      ...begin,
      ...called('{"a":'),
      end({ ...call, arguments: '{"a":' }),
    ),
    'a status that is not its type': stream(...begin, ...said, [
      'response.incomplete',
      end(message)[1] ?? {},
    ]),
    'another id at the end': stream(...begin, ...said, end(message)).replace(
      /resp_1(?!.*resp_1)/s,
      'resp_2',
    ),
    'anything after the end': stream(...begin, ...said, end(message), ...opened),
    'anything after a failure': stream(...begin, ...failure, ...opened),
    'an answer after an error': stream(...begin, ...failure.slice(0, 1), end()),
    'a name that is not the type': stream(...begin).replace('event: response.cr', 'event: x.cr'),
    '[DONE]': `${stream(...begin, end())}data: [DONE]\n\n`,
    'half an event': stream(...begin).slice(0, -1),
  };
  test.each(Object.entries(bad))('refuses %s', (_, text) => {
    expect(() => checkResponsesStream(text)).toThrow();
  });
});
