import { afterAll, beforeAll, describe, expect, setSystemTime, test } from 'bun:test';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { checkResponsesStream } from '../../../../tests/support/stream-checks.ts';
import type { AnswerSink } from '../../../core/answer.ts';
import { outputItemsMax, streamedResponseLengthMax } from '../../../core/bounds.ts';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import { MalformedAnswer } from '../../failure.ts';
import { echoOf } from './response-object.ts';
import { responsesClient, responsesStreamFormat } from './response-writers.ts';
import type { ResponsesBody } from './schema.ts';

const usage = {
  ...noUsage,
  inputTokens: 10,
  cacheReadTokens: 5,
  outputTokens: 7,
  reasoningTokens: 3,
};
const settled = { usage, costCredits: 9 };

beforeAll(() => {
  setSystemTime(1_800_000_007_900);
});
afterAll(() => {
  setSystemTime();
});

const tools = [
  { type: 'function', name: 'look' },
  { type: 'custom', name: 'patch' },
  { type: 'namespace', name: 'agents', tools: [{ type: 'function', name: 'spawn' }] },
];
const body: ResponsesBody = { model: 'acme/large', input: 'Hi', tools };

/** Writes an answer streaming and non-streaming, which must be equal. Returns the stream's. */
function written(emit: (sink: AnswerSink) => void, requested: ResponsesBody = body) {
  const client = responsesClient(requested, echoOf(requested));
  const stream = client.writeStream(identity);
  emit(stream);
  const seen = checkResponsesStream(stream.take() + stream.close(settled));
  const reply = client.writeReply(identity);
  emit(reply);
  expect(JSON.parse(reply.write(settled))).toEqual(seen.response);
  return seen;
}

describe('an answer to a Responses client', () => {
  const refused = 'The provider stopped this answer because of its content policy.';

  test('has a refusal if a provider refuses without a text for it', () => {
    const empty = written((sink) => sink.finish('content_filter', null));
    expect(empty).toMatchObject({ incomplete: 'content_filter', refusal: refused });
    const begun = written((sink) => {
      sink.text('First,');
      sink.finish('content_filter', null);
    });
    expect([begun.text, begun.refusal, begun.items.length]).toEqual(['First,', refused, 1]);
    const called = written((sink) => {
      sink.toolCall(0, 'call_1', 'look');
      sink.toolArguments(0, '{"at":');
      sink.finish('content_filter', null);
    });
    expect(called.items.map(({ type, status }) => [type, status])).toEqual([
      ['function_call', 'incomplete'],
      ['message', 'incomplete'],
    ]);
  });

  test("has only the provider's own text for a refusal", () => {
    const seen = written((sink) => {
      sink.refusal('No.');
      sink.finish('content_filter', null);
    });
    expect(seen.refusal).toBe('No.');
    const stopped = written((sink) => {
      sink.text('Hi');
      sink.finish('stop', null);
    });
    expect(stopped.refusal).toBe('');
  });

  test('has reasoning, text, and calls in order, with usage and cost', () => {
    const seen = written((sink) => {
      sink.reasoning('Let me ');
      sink.reasoning('think.');
      sink.reasoningSignature('EqYC');
      sink.text('Hel');
      sink.text('lo');
      sink.toolCall(0, 'call_1', 'look');
      sink.toolArguments(0, '{"at":');
      sink.toolArguments(0, '"Oslo"}');
      sink.finish('tool_calls', null);
    });
    expect(seen.items).toEqual([
      {
        id: 'rs_0123456789abcdef0000',
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: 'Let me think.' }],
        encrypted_content: 'anthropic:EqYC',
      },
      {
        id: 'msg_0123456789abcdef0001',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hello', annotations: [], logprobs: [] }],
      },
      {
        id: 'fc_0123456789abcdef0002',
        type: 'function_call',
        status: 'completed',
        call_id: 'call_1',
        name: 'look',
        arguments: '{"at":"Oslo"}',
      },
    ]);
    expect(seen).toMatchObject({ status: 'completed', id: 'resp_0123456789abcdef' });
    expect(seen.usage).toEqual({
      input_tokens: 15,
      input_tokens_details: { cached_tokens: 5, cache_write_tokens: 0 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 22,
      cost: 9,
    });
  });

  test('has calls whose arguments were interleaved, and one without any', () => {
    const { tools: calls } = written((sink) => {
      sink.toolCall(0, 'call_a', 'look');
      sink.toolArguments(0, '{"a":');
      sink.toolCall(1, 'call_b', 'look');
      sink.toolArguments(1, '{"b":');
      sink.toolArguments(0, '1}');
      sink.toolArguments(1, '2}');
      sink.toolCall(2, 'call_c', 'look');
      sink.finish('tool_calls', null);
    });
    expect(calls.map(({ callId, input }) => [callId, input])).toEqual([
      ['call_a', '{"a":1}'],
      ['call_b', '{"b":2}'],
      ['call_c', '{}'],
    ]);
  });

  /** Emits arguments, then text. Returns functions that emit more arguments of the call. */
  const argumentsAfterText = (json: string, name = 'look') => {
    const client = responsesClient(body, echoOf(body));
    const sinks = [client.writeStream(identity), client.writeReply(identity)];
    for (const sink of sinks) {
      sink.toolCall(0, 'call_a', name);
      sink.toolArguments(0, json);
      sink.text('Hm.');
    }
    return sinks.map((sink) => (extraFields: string) => sink.toolArguments(0, extraFields));
  };

  test.each([
    ['{"path":"a', 'bc"}', 'look'],
    ['', '{"path":"abc"}', 'look'],
    ['{"input":"a', 'bc"}', 'patch'],
    ['*** Begin', ' Patch', 'patch'],
    ['[a] = f()', ' + 1', 'patch'],
  ])(
    'fails if content follows the incomplete arguments %j and then %j',
    (json, extraFields, name) => {
      for (const emitMore of argumentsAfterText(json, name))
        expect(() => emitMore(extraFields)).toThrow(MalformedAnswer);
    },
  );

  test('accepts repeated complete arguments after text ended their call', () => {
    for (const emitMore of argumentsAfterText('{"path":"abc"}')) emitMore('{"path":"abc"}');
    for (const empty of ['', ' ', '{}', '{ }'])
      for (const emitMore of argumentsAfterText('')) emitMore(empty);
  });

  test.each(['', ' '])('has deltas that add up to the arguments, even after %j', (json) => {
    const stream = responsesClient(body, echoOf(body)).writeStream(identity);
    stream.toolCall(0, 'call_c', 'look');
    stream.toolArguments(0, json);
    stream.finish('tool_calls', null);
    const output = stream.take() + stream.close(settled);
    const deltas = output.matchAll(/"delta":("[^"]*")/g);
    const joined = [...deltas].map(([, delta]) => JSON.parse(String(delta))).join('');
    expect(JSON.parse(joined)).toEqual({});
    expect(checkResponsesStream(output).tools).toMatchObject([{ input: joined }]);
  });

  test.each([
    ['{"input":"*** Begin\\n+ \\"a\\""}', '*** Begin\n+ "a"'],
    ['*** Begin', '*** Begin'],
    ['+ f({ a: [1] })\n- g("}")', '+ f({ a: [1] })\n- g("}")'],
    ['} else {', '} else {'],
    ['[a] = f()\n[b] = g()', '[a] = f()\n[b] = g()'],
    ['{ f() }\n{ g() }', '{ f() }\n{ g() }'],
    ['{"patch":"x"}', '{"patch":"x"}'],
    ['{"a":1}\n{"b":2}', '{"a":1}\n{"b":2}'],
    ['{} + 1', '{} + 1'],
    ['', ''],
  ])('has the free-form input of a custom tool: %s', (json, input) => {
    const { tools: calls } = written((sink) => {
      sink.toolCall(0, 'call_1', 'patch');
      for (const letter of json) sink.toolArguments(0, letter);
      sink.finish('tool_calls', null);
    });
    expect(calls).toMatchObject([{ type: 'custom_tool_call', name: 'patch', input }]);
  });

  test('has both names of a tool in a namespace', () => {
    const { tools: calls } = written((sink) => {
      sink.toolCall(0, 'call_1', 'agents__spawn');
      sink.toolArguments(0, '{}');
      sink.finish('tool_calls', null);
    });
    expect(calls).toMatchObject([{ name: 'spawn', namespace: 'agents' }]);
  });

  test('keeps signatures of every provider, with and without text', () => {
    const { items } = written((sink) => {
      sink.reasoningSignature('gemini:abc');
      sink.toolCall(0, 'call_1', 'look');
      sink.redactedReasoning('data');
      sink.reasoningSignature('responses:rs_1:gAAAA');
      sink.finish('stop', null);
    });
    expect(items).toMatchObject([
      { type: 'reasoning', summary: [], encrypted_content: 'gemini:abc' },
      { type: 'function_call' },
      { encrypted_content: 'redacted:data' },
      { encrypted_content: 'responses:rs_1:gAAAA' },
    ]);
  });

  test('separates visible reasoning from redacted reasoning after it', () => {
    const { response } = written((sink) => {
      sink.reasoning('Hm.');
      sink.redactedReasoning('EncA');
      sink.text('So.');
      sink.finish('stop', null);
    });
    expect(response.output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Hm.' }] },
      { type: 'reasoning', summary: [] },
      { type: 'message' },
    ]);
  });

  test('has one reasoning item per signature', () => {
    const { response } = written((sink) => {
      sink.reasoning('One.');
      sink.reasoningSignature('EqYC');
      sink.reasoning('Two.');
      sink.reasoningSignature('EqYD');
      sink.finish('stop', null);
    });
    expect(response.output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'One.' }] },
      { type: 'reasoning', summary: [{ text: 'Two.' }] },
    ]);
  });

  test('has refusals, citations, and images', () => {
    const seen = written((sink) => {
      sink.text('Rain, they say.');
      sink.citation({ url: 'https://a.example', title: 'A', quote: 'q', range: null });
      sink.citation({
        url: 'https://b.example',
        title: '',
        quote: '',
        range: { start: 1, end: 3 },
      });
      sink.refusal('No more.');
      sink.image('image/png', 'aGk=');
      sink.finish('stop', null);
    });
    expect(seen).toMatchObject({ text: 'Rain, they say.', refusal: 'No more.' });
    expect(seen.annotations).toEqual([
      {
        type: 'url_citation',
        url: 'https://a.example',
        title: 'A',
        start_index: 0,
        end_index: 15,
      },
      { type: 'url_citation', url: 'https://b.example', title: '', start_index: 1, end_index: 3 },
    ]);
    expect(seen.items[1]).toMatchObject({ type: 'image_generation_call', result: 'aGk=' });
  });

  test('counts citation indexes from the start of their text part', () => {
    const source = { url: 'https://a.example', title: 'A', quote: '' };
    const seen = written((sink) => {
      sink.text('Rain 😀.');
      sink.citation({ ...source, range: { start: 5, end: 6 } });
      sink.reasoning('And then?');
      sink.text('Sun 😀.');
      sink.citation({ ...source, range: { start: 7, end: 10 } });
      sink.citation({ ...source, range: null });
      sink.finish('stop', null);
    });
    expect(seen.annotations).toMatchObject([
      { start_index: 5, end_index: 6 },
      { start_index: 0, end_index: 3 },
      { start_index: 0, end_index: 6 },
    ]);
  });

  test.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const)('is incomplete if it finished with %s', (reason, expected) => {
    const seen = written((sink) => {
      sink.text('Hel');
      sink.finish(reason, null);
    });
    expect(seen).toMatchObject({ status: 'incomplete', incomplete: expected });
    expect(seen.items).toMatchObject([{ status: 'incomplete' }]);
  });

  test('leaves the arguments of a call that was cut off incomplete', () => {
    const seen = written((sink) => {
      sink.toolCall(0, 'call_1', 'look');
      sink.toolArguments(0, '{"a":1}');
      sink.toolCall(1, 'call_2', 'look');
      sink.finish('length', null);
    });
    expect(seen.items).toMatchObject([
      { status: 'completed', arguments: '{"a":1}' },
      { status: 'incomplete', arguments: '' },
    ]);
  });

  test('may be empty', () => {
    expect(written((sink) => sink.finish('stop', null))).toMatchObject({
      items: [],
      status: 'completed',
    });
  });

  test('has completed_at only if it is completed', () => {
    const complete = written((sink) => sink.finish('stop', null));
    expect(complete.response).toMatchObject({
      created_at: 1_800_000_000,
      completed_at: 1_800_000_007,
    });
    const cut = written((sink) => sink.finish('length', null));
    expect(cut.response).toMatchObject({ status: 'incomplete', completed_at: null });
  });

  test("repeats the request's fields", () => {
    const requested: ResponsesBody = {
      ...body,
      instructions: 'Be brief.',
      temperature: 0.5,
      metadata: { a: 'b' },
      reasoning: { effort: 'low' },
      text: { verbosity: 'low' },
      store: true,
    };
    const { response } = written((sink) => sink.finish('stop', null), requested);
    expect(response).toMatchObject({
      instructions: 'Be brief.',
      temperature: 0.5,
      top_p: 1,
      service_tier: 'default',
      frequency_penalty: 0,
      presence_penalty: 0,
      metadata: { a: 'b' },
      reasoning: { effort: 'low', summary: null },
      text: { format: { type: 'text' }, verbosity: 'low' },
      tools: [
        { type: 'function', name: 'look', description: null, parameters: null, strict: false },
        { type: 'custom', name: 'patch' },
        { type: 'namespace', name: 'agents' },
      ],
      tool_choice: 'auto',
      parallel_tool_calls: true,
      store: false,
      previous_response_id: null,
    });
  });
});

test("a new text part of a Responses stream has every field of OpenAI's schema", () => {
  const stream = responsesClient(body, echoOf(body)).writeStream(identity);
  stream.text('Hi');
  const part = { type: 'output_text', annotations: [], logprobs: [], text: '' };
  expect(stream.take()).toContain(JSON.stringify({ content_index: 0, part }).slice(1));
});

describe('a failed Responses stream', () => {
  const error = new GatewayError('upstream_error', 'The upstream failed.');
  const client = responsesClient(body, echoOf(body));

  test('ends with a failure after the content and never looks complete', () => {
    const stream = client.writeStream(identity);
    stream.text('Hel');
    const seen = checkResponsesStream(stream.take() + stream.fail(error));
    expect(seen).toMatchObject({
      ended: 'error',
      status: 'failed',
      error: { code: 'server_error', message: 'The upstream failed.', param: null },
    });
  });

  test('has its opening events even if it fails before any content', () => {
    const late = responsesStreamFormat(echoOf(body)).fail(error, identity);
    const early = client.writeStream(identity).fail(error);
    expect(late).toBe(early);
    expect(checkResponsesStream(`: keep-alive\n\n${late}`).ended).toBe('error');
  });

  test("reports missing credits with OpenAI's code", () => {
    const error = new GatewayError('insufficient_credits', 'No credits.');
    expect(client.writeStream(identity).fail(error)).toContain('"code":"insufficient_quota"');
  });
});

test('ResponsesStreamWriter ends an endless answer before it exhausts memory', () => {
  const stream = responsesClient(body, echoOf(body)).writeStream(identity);
  const piece = 'x'.repeat(1024 * 1024);
  let length = 0;
  const emitForever = () => {
    for (;;) {
      stream.text(piece);
      stream.take();
      length += piece.length;
    }
  };
  expect(emitForever).toThrow('too long');
  expect(length).toBeLessThanOrEqual(streamedResponseLengthMax);
  expect(length).toBeGreaterThan(streamedResponseLengthMax - 2 * piece.length);
});

const mebibyte = 'x'.repeat(1024 * 1024);
const longCitation = { url: 'https://a.example', title: mebibyte, quote: '', range: null };

test.each<[string, (to: AnswerSink) => void]>([
  ['refusals', (sink) => sink.refusal(mebibyte)],
  ['reasoning', (sink) => sink.reasoning(mebibyte)],
  ['signatures', (sink) => sink.reasoningSignature(mebibyte)],
  ['redacted reasoning', (sink) => sink.redactedReasoning(mebibyte)],
  ['citations', (sink) => sink.citation(longCitation)],
])('ResponsesStreamWriter ends an answer with endless %s', (_, emit) => {
  const stream = responsesClient(body, echoOf(body)).writeStream(identity);
  stream.text('x');
  const limit = streamedResponseLengthMax / mebibyte.length;
  let count = 0;
  const emitForever = () => {
    for (; count < limit + 2; count += 1) {
      emit(stream);
      stream.take();
    }
  };
  expect(emitForever).toThrow('too long');
  expect(count).toBeGreaterThan(limit - 2);
});

test('ResponsesStreamWriter ends an answer with endless arguments', () => {
  const stream = responsesClient(body, echoOf(body)).writeStream(identity);
  stream.toolCall(0, 'call_1', 'look');
  const emitForever = () => {
    for (let length = 0; length <= streamedResponseLengthMax; length += mebibyte.length) {
      stream.toolArguments(0, mebibyte);
      stream.take();
    }
  };
  expect(emitForever).toThrow('too long');
});

test.each(['{}', '{'])(
  'ResponsesStreamWriter ends an answer with too many calls whose arguments are %s',
  (json) => {
    const stream = responsesClient(body, echoOf(body)).writeStream(identity);
    const emitForever = () => {
      for (let call = 0; call < 2 * outputItemsMax; call += 1) {
        stream.toolCall(call, `call_${call}`, 'look');
        stream.toolArguments(call, json);
        stream.take();
      }
    };
    expect(emitForever).toThrow('too long');
  },
);

test('ResponsesStreamWriter ends an answer with too many small parts', () => {
  const stream = responsesClient(body, echoOf(body)).writeStream(identity);
  // Fill most of the limit first: single letters would take too long to reach it.
  const remaining = 2 * mebibyte.length;
  for (let length = remaining; length < streamedResponseLengthMax; length += mebibyte.length) {
    stream.text(mebibyte);
    stream.take();
  }
  const emitForever = () => {
    // Each part has one letter but takes much more memory.
    for (let part = 0; part < remaining / 20; part += 1) {
      if (part % 2 === 0) stream.refusal('x');
      else stream.text('x');
      stream.take();
    }
  };
  expect(emitForever).toThrow('too long');
});
