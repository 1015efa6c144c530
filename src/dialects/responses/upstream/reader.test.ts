import { describe, expect, test } from 'bun:test';
import { RecordingSink, readEvents } from '../../../../tests/support/recording-sink.ts';
import { outputItemsMax } from '../../../core/bounds.ts';
import { ResponsesStreamReader, readFullReply } from './reader.ts';

type Event = Readonly<Record<string, unknown>> & { readonly type: string };

const read = (...events: readonly (Event | string)[]) =>
  readEvents((sink) => new ResponsesStreamReader(sink), events);

const usage = { input_tokens: 9, output_tokens: 4, total_tokens: 13 };
const response = (extraFields: object) => ({
  status: 'completed',
  error: null,
  usage,
  ...extraFields,
});
const completed = (output: readonly object[] = []): Event => ({
  type: 'response.completed',
  response: response({ output }),
});
const added = (at: number, item: object): Event => ({
  type: 'response.output_item.added',
  output_index: at,
  item,
});
const done = (at: number, item: object): Event => ({
  type: 'response.output_item.done',
  output_index: at,
  item,
});
const delta = (kind: string, index: number, piece: string): Event => ({
  type: `response.${kind}.delta`,
  output_index: index,
  delta: piece,
});
const call = (id: string, json: string) => ({
  type: 'function_call',
  id: `fc_${id}`,
  call_id: `call_${id}`,
  name: 'now',
  arguments: json,
});
const message = (text: string) => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
});
const argumentsDelta = 'function_call_arguments';

describe('ResponsesStreamReader', () => {
  test('separates messages and keeps the positions of citations', () => {
    const source = { type: 'url_citation', url: 'https://a.test', start_index: 0, end_index: 4 };
    const note = { type: 'response.output_text.annotation.added', annotation: source };
    const partAdded = { type: 'response.content_part.added' };
    const streamed = read(
      added(0, { type: 'message', phase: 'commentary', content: [] }),
      delta('output_text', 0, 'Let me look '),
      delta('output_text', 0, 'it up 🔎.'),
      done(0, message('Let me look it up 🔎.')),
      added(1, { type: 'message', phase: 'final_answer', content: [] }),
      { ...partAdded, output_index: 1 },
      delta('output_text', 1, 'Done.'),
      { ...note, output_index: 1 },
      completed(),
    ).sink;
    const [part] = message('Done.').content;
    const withCitation = { ...message(''), content: [{ ...part, annotations: [source] }] };
    const complete = read(completed([message('Let me look it up 🔎.'), withCitation])).sink;
    for (const sink of [streamed, complete]) {
      expect(sink.fullText).toBe('Let me look it up 🔎.\n\nDone.');
      expect(sink.citations).toMatchObject([{ range: { start: 22, end: 26 } }]);
    }
  });

  test('emits arguments that arrive complete, and an empty object for missing ones', () => {
    const { sink } = read(
      added(0, call('a', '')),
      { type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"x":1}' },
      added(1, call('b', '')),
      delta(argumentsDelta, 1, '{"y":2}'),
      { type: 'response.function_call_arguments.done', output_index: 1, arguments: '{"y":2}' },
      done(1, call('b', '{"y":2}')),
      added(2, call('c', '')),
      completed(),
    );
    expect(sink.calls.map(({ arguments: json }) => json)).toEqual(['{"x":1}', '{"y":2}', '{}']);
    expect(sink.finishReason).toBe('tool_calls');
  });

  test('emits reasoning paragraphs followed by their signature', () => {
    const part = { type: 'response.reasoning_summary_part.added', output_index: 0 };
    const item = {
      type: 'reasoning',
      id: 'rs_1',
      encrypted_content: 'gAAA=:x',
      summary: [
        { type: 'summary_text', text: 'One.' },
        { type: 'summary_text', text: 'Two.' },
      ],
    };
    const { sink } = read(
      added(0, { type: 'reasoning', id: 'rs_0', encrypted_content: 'early', summary: [] }),
      part,
      delta('reasoning_summary_text', 0, 'One.'),
      part,
      delta('reasoning_summary_text', 0, 'Two.'),
      done(0, item),
      done(1, message('So.')),
      completed([item, message('So.')]),
    );
    expect(sink.reasoningText).toBe('One.\n\nTwo.');
    expect(sink.signatures).toEqual(['responses:rs_1:gAAA=:x']);
    expect(sink.order).toEqual(['reasoning', 'signature', 'text', 'finish']);
    const complete = read(completed([item, message('So.')])).sink;
    expect(complete.reasoningText).toBe('One.\n\nTwo.');
    expect(complete.order).toEqual(sink.order);
  });

  test('emits the reasoning of open models', () => {
    const { sink } = read(
      delta('reasoning_text', 0, 'Hm.'),
      done(0, { type: 'reasoning', id: 'rs_1', content: [{ text: 'Hm.' }] }),
      completed(),
    );
    expect(sink.reasoningText).toBe('Hm.');
    expect(sink.signatures).toEqual([]);
    const reasoning = { type: 'reasoning', summary: [], content: [{ text: 'Hm.' }] };
    const complete = read(completed([reasoning]));
    expect(complete.sink.reasoningText).toBe('Hm.');
  });

  test('separates interleaved calls by index, regardless of their IDs', () => {
    const { sink } = read(
      added(1, { ...call('a', ''), id: 'x1' }),
      added(2, { ...call('b', ''), id: 'x2' }),
      { ...delta(argumentsDelta, 1, '{"x"'), item_id: 'x3' },
      { ...delta(argumentsDelta, 2, '{"y"'), item_id: 'x4' },
      delta(argumentsDelta, 1, ':1}'),
      delta(argumentsDelta, 2, ':2}'),
      done(1, call('a', '{"x":1}')),
      done(2, call('b', '{"y":2}')),
      completed(),
    );
    expect(sink.calls.map(({ id, arguments: json }) => [id, json])).toEqual([
      ['call_a', '{"x":1}'],
      ['call_b', '{"y":2}'],
    ]);
    expect(sink.finishReason).toBe('tool_calls');
  });

  test('emits a call and its arguments after text that arrives between them', () => {
    const content = [delta('output_text', 1, 'Let me'), delta('output_text', 1, ' see.')];
    const pieces = [delta(argumentsDelta, 0, '{"x"'), delta(argumentsDelta, 0, ':1}')];
    const item = call('a', '{"x":1}');
    for (const rest of [pieces, [done(0, item)], [completed([item])]]) {
      const { sink } = read(added(0, call('a', '')), ...content, ...rest, completed());
      expect([sink.fullText, sink.calls[0]?.arguments]).toEqual(['Let me see.', '{"x":1}']);
      expect(sink.order).toEqual(['text', 'call', 'arguments', 'finish']);
    }
  });

  test('emits a free-form call once its input is complete', () => {
    const item = { type: 'custom_tool_call', id: 'ctc_a', call_id: 'call_a', name: 'sql' };
    const start = [added(0, { ...item, input: '' }), delta('custom_tool_call_input', 0, 'SEL')];
    expect(read(...start).sink.calls).toMatchObject([{ id: 'call_a', name: 'sql', arguments: '' }]);
    const ended = { type: 'response.custom_tool_call_input.done', output_index: 0 };
    const input = 'SELECT 1';
    expect(read(...start, { ...ended, input }, delta('output_text', 1, 'Hi')).sink).toMatchObject({
      calls: [{ id: 'call_a', arguments: '{"input":"SELECT 1"}' }],
      order: ['call', 'arguments', 'text'],
    });
    const next = [added(1, call('b', '')), delta(argumentsDelta, 1, '{}')];
    const items = [{ ...item, input }, call('b', '{}')];
    expect(read(...start, ...next, completed(items)).sink.calls).toMatchObject([
      { id: 'call_a', arguments: '{"input":"SELECT 1"}' },
      { id: 'call_b', arguments: '{}' },
    ]);
  });

  test('completes calls that have no deltas, no announcement, or no arguments', () => {
    const { sink } = read(
      added(0, call('a', '')),
      done(0, call('a', '{"x":1}')),
      delta(argumentsDelta, 1, '{"y"'),
      done(1, call('b', '{"y":2}')),
      done(2, { ...call('c', ''), call_id: undefined }),
      completed([{}, {}, {}, call('d', '{}')]),
    );
    expect(sink.calls.map(({ arguments: json }) => json)).toEqual([
      '{"x":1}',
      '{"y":2}',
      '{}',
      '{}',
    ]);
    expect(sink.calls[2]?.id).toMatch(/^call_[0-9a-z]{24}$/);
    expect(sink.calls[3]?.id).toBe('call_d');
  });

  test('completes the arguments from the final item if their deltas end early', () => {
    const item = call('a', '{"city":"Paris"}');
    const start = [added(0, call('a', '')), delta(argumentsDelta, 0, '{"city":"Par')];
    const streams = [
      [...start, completed([item])],
      [...start, done(0, item), completed([item])],
      [
        ...start,
        {
          type: 'response.function_call_arguments.done',
          output_index: 0,
          arguments: item.arguments,
        },
        done(0, item),
        completed([item]),
      ],
      // The final arguments are formatted differently, but the deltas were already complete.
      [...start, delta(argumentsDelta, 0, 'is"}'), completed([call('a', '{ "city": "Paris" }')])],
    ];
    for (const events of streams) {
      expect(read(...events).sink.calls[0]?.arguments).toBe('{"city":"Paris"}');
    }
  });

  test('serializes arguments that are an object', () => {
    const item = { ...call('a', ''), arguments: { x: 1 } };
    expect(read(completed([item])).sink.calls[0]?.arguments).toBe('{"x":1}');
  });

  test('keeps the announced name of a call that ends without a name', () => {
    const { name, call_id, ...end } = call('a', '{"x":1}');
    const { sink } = read(added(0, call('a', '')), done(0, end), completed());
    expect(sink.calls).toMatchObject([{ id: call_id, name, arguments: '{"x":1}' }]);
  });

  test('emits deltas of unannounced items once', () => {
    const hello = { ...message('Hello!'), id: 'msg_1' };
    const content = { ...delta('output_text', 1, 'Hello!'), item_id: 'msg_1' };
    expect(read(content, completed([hello])).sink.fullText).toBe('Hello!');
  });

  test('emits nothing twice when indexes have gaps', () => {
    const hello = { ...message('Hello!'), id: 'msg_1' };
    const { sink } = read(
      { type: 'response.output_item.added', output_index: 0, item: null },
      added(1, { ...hello, content: [] }),
      delta('output_text', 1, 'Hello!'),
      added(3, call('a', '')),
      delta(argumentsDelta, 3, '{}'),
      completed([hello, call('a', '{}')]),
    );
    expect(sink.fullText).toBe('Hello!');
    expect(sink.calls).toMatchObject([{ id: 'call_a', arguments: '{}' }]);
  });

  test('emits refusals and citations', () => {
    const note = { url: 'https://a.example/', title: 'A', start_index: 0, end_index: 5 };
    const { sink } = read(
      delta('output_text', 0, 'Hello'),
      { type: 'response.output_text.annotation.added', output_index: 0, annotation: note },
      delta('refusal', 1, 'No.'),
      completed(),
    );
    expect(sink.refusalText).toBe('No.');
    expect(sink.citations).toEqual([
      { url: 'https://a.example/', title: 'A', quote: '', range: { start: 0, end: 5 } },
    ]);
    const parts = [
      { type: 'output_text', text: 'Hello', annotations: [note, null] },
      { type: 'refusal', refusal: 'No.' },
    ];
    const complete = read(completed([{ type: 'message', content: parts }])).sink;
    expect([complete.fullText, complete.refusalText, complete.citations.length]).toEqual([
      'Hello',
      'No.',
      1,
    ]);
  });

  test('ignores unknown events and items', () => {
    const { sink, failure } = read(
      { type: 'response.created', response: { status: 'in_progress' } },
      { type: 'response.audio.delta', output_index: 0, delta: 'AAAA' },
      { type: 'response.output_text.delta', output_index: 0, delta: 3 },
      { type: 'response.output_item.done', output_index: 1, item: null },
      done(2, { type: 'web_search_call' }),
      done(3, { type: 'message', content: 'none' }),
      { type: 'keepalive' },
      completed(),
      '[DONE]',
      'more',
    );
    expect(failure).toBeUndefined();
    expect(sink.order).toEqual(['finish']);
  });

  test("does not emit xAI's own searches as calls", () => {
    const search = {
      ...{ type: 'custom_tool_call', id: 'ctc_1', call_id: 'xs_call_1', name: 'x_keyword_search' },
      input: '{"query":"a"}',
    };
    const { sink } = read(
      added(0, { ...search, input: '' }),
      delta('custom_tool_call_input', 0, search.input),
      done(0, search),
      done(1, message('Found.')),
      completed([search, message('Found.')]),
    );
    expect([sink.order, sink.fullText]).toEqual([['text', 'finish'], 'Found.']);
    expect(sink.finishReason).toBe('stop');
    const late = read(
      added(0, { ...search, name: undefined, input: '' }),
      done(0, search),
      done(1, message('Found.')),
      completed([search, message('Found.')]),
    );
    expect([late.sink.order, late.sink.finishReason]).toEqual([['text', 'finish'], 'stop']);
    const own = read(completed([{ ...search, name: 'x_mine' }])).sink;
    expect([own.calls.length, own.finishReason]).toEqual([1, 'tool_calls']);
  });

  test('fails on too many items', () => {
    const items = Array.from({ length: outputItemsMax }, (_, index) => done(index, message('a')));
    expect(read(...items.slice(1), completed()).failure).toBeUndefined();
    const { failure, reader } = read(...items, completed());
    expect(failure?.kind).toBe('malformed');
    expect(reader.finished).toBe(false);
  });
});

describe('ResponsesStreamReader at the end of a stream', () => {
  const incomplete = (reason: string | undefined): Event => ({
    type: 'response.incomplete',
    response: response({ status: 'incomplete', incomplete_details: { reason } }),
  });

  test.each([
    ['max_output_tokens', 'length'],
    ['content_filter', 'content_filter'],
    [undefined, 'length'],
  ] as const)(
    'finishes a response that is incomplete because of %p with the finish reason %s',
    (reason, finish) => {
      const { sink, reader } = read(delta('output_text', 0, 'Hel'), incomplete(reason));
      expect(sink.finishReason).toBe(finish);
      expect(reader.finished).toBe(true);
    },
  );

  test('finishes only with the final event', () => {
    expect(read(done(0, message('Hello!'))).reader.finished).toBe(false);
    const final: Event = { type: 'response.completed', response: { usage } };
    expect(read(final).reader.finished).toBe(true);
  });
});

describe('an error of a Responses upstream', () => {
  const text = 'Rate limit reached.';

  test.each<[string, Event]>([
    [
      'with flat fields',
      { type: 'error', code: 'rate_limit_exceeded', message: text, param: null },
    ],
    [
      'with nested fields',
      { type: 'error', error: { code: 'rate_limit_exceeded', message: text } },
    ],
    [
      'in the response object',
      {
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'rate_limit_exceeded', message: text } },
      },
    ],
    [
      'in the opening event',
      {
        type: 'response.created',
        response: { status: 'queued', error: { code: 'rate_limit_exceeded', message: text } },
      },
    ],
  ])('fails the stream: %s', (_, event) => {
    const { sink, reader, failure } = read(delta('output_text', 0, 'Hel'), event);
    expect(failure).toMatchObject({ kind: 'rate_limited', message: text });
    expect(reader.finished).toBe(false);
    expect(sink.finishReason).toBeNull();
  });

  test('fails the stream even if it is not JSON', () => {
    const reader = new ResponsesStreamReader(new RecordingSink());
    const failure = reader.push({ event: 'error', data: 'upstream gone' });
    expect(failure).toMatchObject({ kind: 'server', message: 'upstream gone' });
  });

  test.each<[Event | string, string]>([
    [{ type: 'response.failed', response: { status: 'failed', error: null } }, 'server'],
    [{ type: 'response.failed' }, 'server'],
    [{ type: 'response.cancelled', response: { status: 'cancelled' } }, 'server'],
    ['{"error":{"code":"server_error","message":"Sorry."}}', 'server'],
    ['{"type":"resp', 'malformed'],
    ['null', 'malformed'],
  ])('fails the stream even without a message: %j', (event, kind) => {
    expect(read(event).failure?.kind).toBe(kind as 'server');
  });

  test.each([
    ['', 'malformed'],
    ['[]', 'malformed'],
    ['{}', 'malformed'],
    ['{"status":"in_progress","output":[]}', 'malformed'],
    ['{"status":{"toString":1},"output":[]}', 'malformed'],
    ['{"status":"failed"}', 'server'],
    ['{"error":{"message":"No.","code":"insufficient_quota"}}', 'quota'],
    ['{"status":"failed","error":{"message":"No.","code":"rate_limit_exceeded"}}', 'rate_limited'],
  ])('fails a reply: %s', (body, kind) => {
    expect(readFullReply(body, new RecordingSink())?.kind).toBe(kind as 'server');
  });
});

describe('ResponsesStreamReader with events that lack the output index', () => {
  const withoutIndex = ({ output_index: _, ...event }: Event): Event => event as Event;
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [{ text: 'Hm.' }] };
  const answer = { ...message('Hello!'), id: 'msg_1' };
  const piece = (kind: string, item_id: string, text: string): Event => ({
    type: `response.${kind}.delta`,
    item_id,
    delta: text,
  });

  test('finds the item by ID and emits everything once', () => {
    const pieces = [piece('output_text', 'msg_1', 'Hel'), piece('output_text', 'msg_1', 'lo!')];
    const events = [
      added(0, { type: 'reasoning', id: 'rs_1' }),
      piece('reasoning_summary_text', 'rs_1', 'Hm.'),
      done(0, reasoning),
      added(1, { type: 'message', id: 'msg_1' }),
      ...pieces,
      done(1, answer),
      completed([reasoning, answer]),
    ];
    for (const variant of [events, events.map(withoutIndex)]) {
      const { sink } = read(...variant);
      expect([sink.reasoningText, sink.fullText]).toEqual(['Hm.', 'Hello!']);
    }
  });

  test('emits a call once', () => {
    const item = call('a', '{"x":1}');
    const { sink } = read(
      withoutIndex(added(0, { ...item, arguments: '' })),
      piece(argumentsDelta, 'fc_a', '{"x"'),
      piece(argumentsDelta, 'fc_a', ':1}'),
      withoutIndex(done(0, item)),
      completed([item]),
    );
    expect(sink.calls).toMatchObject([{ id: 'call_a', name: 'now', arguments: '{"x":1}' }]);
  });
});

test('ResponsesStreamReader emits a free-form call as a function call', () => {
  const item = { type: 'custom_tool_call', id: 'ctc_1', call_id: 'call_1', name: 'sql' };
  const final = { ...item, input: 'SELECT 1' };
  const { sink } = read(
    added(0, { ...item, input: '' }),
    delta('custom_tool_call_input', 0, 'SELECT 1'),
    done(0, final),
    completed([final]),
  );
  const functionCall = { id: 'call_1', name: 'sql', arguments: '{"input":"SELECT 1"}' };
  expect(sink.calls).toMatchObject([functionCall]);
  expect(sink.finishReason).toBe('tool_calls');
});

test('readFullReply fails on too many items', () => {
  const item = { type: 'message', content: [{ type: 'output_text', text: 'a' }] };
  const read = (length: number) => {
    const response = { status: 'completed', output: Array(length).fill(item) };
    return readFullReply(JSON.stringify(response), new RecordingSink())?.kind;
  };
  expect([read(outputItemsMax - 1), read(outputItemsMax)]).toEqual([undefined, 'malformed']);
});

describe('ResponsesStreamReader with events without indexes or IDs', () => {
  const withoutIndex = ({ output_index: _, ...event }: Event): Event => ({ ...event });
  const sinkOf = (...events: readonly Event[]) => read(...events.map(withoutIndex)).sink;

  test('separates calls by call_id, as llama.cpp sends them', () => {
    const items = ['1', '2'].map((id) => {
      const { id: _, ...withoutId } = call(id, `{"x":${id}}`);
      return { ...withoutId, call_id: `fc_${id}` };
    });
    const starts = items.map((item) => added(0, { ...item, arguments: '' }));
    const piece = (id: string, json: string) => ({
      ...delta(argumentsDelta, 0, json),
      item_id: `fc_${id}`,
    });
    const { calls } = sinkOf(
      ...starts.slice(0, 1),
      piece('1', '{"x":'),
      piece('1', '1}'),
      ...starts.slice(1),
      piece('2', '{"x":2}'),
      ...items.map((item) => done(0, item)),
      completed(items),
    );
    expect(calls).toMatchObject([
      { id: 'fc_1', arguments: '{"x":1}' },
      { id: 'fc_2', arguments: '{"x":2}' },
    ]);
  });

  test('separates items without an ID, even if they were not announced', () => {
    const { id: _, ...withoutId } = call('1', '{}');
    const items = [message('One.'), message('Two.'), withoutId];
    const begin = added(0, { type: 'message', content: [] });
    const emit = (text: string) => delta('output_text', 0, text);
    const ends = items.map((item) => done(0, item));
    const announced = [begin, emit('One.'), ends[0], begin, emit('Two.'), ends[1], ends[2]];
    for (const events of [announced.filter((event) => event !== undefined), ends]) {
      const { fullText, calls } = sinkOf(...events, completed(items));
      expect([fullText, calls.length]).toEqual(['One.\n\nTwo.', 1]);
    }
  });
});
