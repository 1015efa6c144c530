/** Malformed requests and answers are rejected or converted, and never throw unexpected errors. */
import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../tests/support/prompts.ts';
import { fc } from '../../../tests/support/random.ts';
import { type FullResponse, streamOf } from '../../../tests/support/response-events.ts';
import { checkResponsesStream } from '../../../tests/support/stream-checks.ts';
import type { AnswerSink } from '../../core/answer.ts';
import { GatewayError } from '../../core/errors.ts';
import { noUsage } from '../../core/usage.ts';
import { MalformedAnswer } from '../failure.ts';
import { readResponsesRequest } from './client/request.ts';
import { echoOf } from './client/response-object.ts';
import { responsesClient } from './client/response-writers.ts';
import type { ResponsesBody } from './client/schema.ts';
import { responsesClientRequest } from './client-request.ts';
import { readReply } from './passthrough/reply.ts';
import { ResponsesPassThrough } from './passthrough/stream.ts';

const timeoutMs = 120_000;
const dialects = ['openai', 'anthropic', 'gemini', 'openai-responses'] as const;

const types = [
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'reasoning',
  'input_text',
  'output_text',
  'input_image',
  'input_file',
  'input_audio',
  'refusal',
  'function',
  'custom',
  'namespace',
  'web_search',
  'novelty',
];
/** Random objects with known field names and plausible values. */
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom('a', '', 'user', 'assistant', 'developer', '{"a":1}') },
    { weight: 2, arbitrary: fc.constantFrom(null, true, 5, 'https://a.example/b.png') },
    { weight: 3, arbitrary: tie('typed') },
    { weight: 3, arbitrary: fc.array(tie('typed'), { maxLength: 3 }) },
  ),
  typed: fc.dictionary(
    fc.constantFrom(
      ...['type', 'role', 'content', 'text', 'call_id', 'name', 'arguments', 'output', 'input'],
      ...['summary', 'encrypted_content', 'image_url', 'file_data', 'refusal', 'id', 'tools'],
      ...['namespace', 'parameters', 'format', 'input_audio', 'filters', '__proto__'],
    ),
    fc.oneof(tie('any'), fc.constantFrom(...types)),
    { maxKeys: 8 },
  ),
}));

const validItems: readonly object[] = [
  { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Ho' }] },
  { type: 'function_call', call_id: 'c', name: 'a', arguments: '{}' },
  { type: 'function_call_output', call_id: 'c', output: 'x' },
  { type: 'custom_tool_call', call_id: 'd', name: 'b', input: 'x' },
  { type: 'reasoning', id: 'rs_1', summary: [{ text: 'x' }], encrypted_content: 'gAAAA' },
];
const validParts: readonly object[] = [
  { type: 'input_text', text: 'x' },
  { type: 'input_image', image_url: 'https://a.example/b.png' },
  { type: 'input_file', file_id: 'f' },
  { type: 'refusal', refusal: 'x' },
  { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } },
];
const validTools: readonly object[] = [
  { type: 'function', name: 'a' },
  { type: 'custom', name: 'b' },
  { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'a' }] },
  { type: 'web_search' },
];

/** Adds random fields to valid objects; sometimes they replace valid fields. */
function overlaid(valid: readonly object[], invalidWeight = 1): fc.Arbitrary<object> {
  const pair = fc.tuple(fc.constantFrom(...valid), value.typed);
  return fc.oneof(
    {
      weight: 30,
      arbitrary: pair.map(([base, extraFields]) => ({ ...(extraFields as object), ...base })),
    },
    {
      weight: invalidWeight,
      arbitrary: pair.map(([base, extraFields]) => ({ ...base, ...(extraFields as object) })),
    },
  );
}

const parts = fc.array(overlaid(validParts), { maxLength: 3 });
const message = fc
  .tuple(fc.constantFrom('user', 'assistant', 'developer'), parts)
  .map(([role, content]) => ({ role, content }));
const result = parts.map((output) => ({ type: 'function_call_output', call_id: 'c', output }));
const item = fc.oneof(overlaid(validItems), message, result);
const mostlyValid = (...values: readonly unknown[]) =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constantFrom(...values) },
    { weight: 1, arbitrary: value.any },
  );

const request = fc.record(
  {
    model: fc.constant('a/b'),
    input: fc.array(item, { minLength: 1, maxLength: 4 }),
    tools: fc.array(overlaid(validTools), { maxLength: 3 }),
    tool_choice: mostlyValid('auto', { type: 'function', name: 'a' }, { type: 'novelty' }),
    text: mostlyValid({ format: { type: 'json_object' } }, { verbosity: 'low' }),
    reasoning: mostlyValid({ effort: 'low' }, { summary: 'auto' }, {}),
    include: mostlyValid([], ['a']),
    metadata: mostlyValid({ a: 'b' }),
  },
  { requiredKeys: ['model', 'input'] },
);

test(
  'a malformed Responses request is rejected with its field or can be sent to every upstream',
  () => {
    let accepted = 0;
    const sendToAll = (body: object) => {
      const text = JSON.stringify(body);
      const source = { text, bytes: new TextEncoder().encode(text) };
      const clientRequest = responsesClientRequest(readResponsesRequest(JSON.parse(text), source));
      accepted += 1;
      for (const dialect of dialects) {
        const sent = clientRequest.adapterFor(dialect)?.write(makeTarget());
        expect(JSON.parse(String(sent?.body))).toBeObject();
      }
    };
    fc.assert(
      fc.property(request, (body) => {
        try {
          sendToAll(body);
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error;
          expect(error.status).toBe(400);
          expect(error.param).not.toBeNull();
        }
      }),
      { numRuns: 2_000 },
    );
    expect(accepted).toBeGreaterThan(500);
  },
  timeoutMs,
);

const identity = { id: 'chatcmpl-0123456789abcdef', model: 'a/b', provider: 'a', created: 1 };
const settled = { usage: { ...noUsage, inputTokens: 1 }, costCredits: 1 };
const tools = [{ type: 'custom', name: 'patch' }];
const body: ResponsesBody = { input: 'Hi', tools };
const echo = echoOf(body);

type SinkCall =
  | readonly ['text' | 'reasoning' | 'refusal' | 'reasoningSignature' | 'redactedReasoning', string]
  | readonly ['call', string]
  | readonly ['arguments', number, string]
  | readonly ['citation' | 'image'];
const shortText = fc.string({ unit: 'grapheme', maxLength: 8 });
const sinkCall: fc.Arbitrary<SinkCall> = fc.oneof(
  fc.tuple(
    fc.constantFrom('text', 'reasoning', 'refusal', 'reasoningSignature', 'redactedReasoning'),
    shortText,
  ),
  fc.tuple(fc.constant('call' as const), fc.constantFrom('look', 'patch')),
  fc.tuple(
    fc.constant('arguments' as const),
    fc.nat(3),
    fc.constantFrom('{"input":', '"x"}', '{}'),
  ),
  fc.tuple(fc.constantFrom('citation', 'image')),
);

function emit(sink: AnswerSink, calls: readonly SinkCall[]): void {
  let toolCalls = 0;
  for (const [kind, first, second] of calls) {
    if (kind === 'call') {
      sink.toolCall(toolCalls, `call_${toolCalls}`, String(first));
      toolCalls += 1;
    } else if (kind === 'arguments') sink.toolArguments(Number(first), String(second));
    else if (kind === 'citation') sink.citation({ url: 'a', title: 'b', quote: '', range: null });
    else if (kind === 'image') sink.image('image/png', 'aGk=');
    else sink[kind](String(first));
  }
}

/** Returns false if arguments follow the end of their call, which the writers reject. */
function tryEmit(sink: AnswerSink, calls: readonly SinkCall[]): boolean {
  try {
    emit(sink, calls);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(MalformedAnswer);
    return false;
  }
}

test(
  'any answer becomes a valid Responses stream, reply or failed stream',
  () => {
    const client = responsesClient(body, echo);
    fc.assert(
      fc.property(fc.array(sinkCall, { maxLength: 20 }), (calls) => {
        const cut = client.writeStream(identity);
        const isAccepted = tryEmit(cut, calls);
        const failed = cut.take() + cut.fail(new GatewayError('upstream_error', 'x'));
        expect(checkResponsesStream(failed).ended).toBe('error');
        const reply = client.writeReply(identity);
        expect(tryEmit(reply, calls)).toBe(isAccepted);
        if (!isAccepted) return;
        const stream = client.writeStream(identity);
        emit(stream, calls);
        // Finish with `length`, because the arguments may be incomplete.
        stream.finish('length', null);
        const seen = checkResponsesStream(stream.take() + stream.close(settled));
        expect(seen.ended).toBe('complete');
        reply.finish('length', null);
        expect(JSON.parse(reply.write(settled))).toEqual(seen.response);
      }),
      { numRuns: 500 },
    );
  },
  timeoutMs,
);

describe('a Responses upstream that sends malformed data', () => {
  const response = {
    id: 'resp_up',
    object: 'response',
    model: 'up-1',
    status: 'completed',
    output: [{ type: 'message', id: 'msg_1', content: [{ type: 'output_text', text: 'Hi' }] }],
  };
  const events = streamOf(response as unknown as FullResponse)
    .split('\n\n')
    .flatMap((event) => event.split('data: ').slice(1));

  test(
    'in a stream either fails it or passes with consecutive sequence numbers',
    () => {
      const fuzzed = fc.oneof(
        fc.constantFrom(...events),
        value.typed.map((fields) => JSON.stringify(fields)),
        fc
          .tuple(fc.constantFrom(...events), value.typed)
          .map(([event, fields]) =>
            JSON.stringify({ ...JSON.parse(event), ...(fields as object) }),
          ),
        fc.string(),
      );
      fc.assert(
        fc.property(fc.array(fuzzed, { maxLength: 12 }), (messages) => {
          const stream = new ResponsesPassThrough(identity, echo);
          let text = messages.map((data) => stream.push({ event: null, data })).join('');
          text += stream.finished
            ? stream.close(settled)
            : stream.fail(new GatewayError('upstream_error', 'x'));
          const numbers = [...text.matchAll(/^data: (.*)$/gm)].map(
            ([, data = '']) => (JSON.parse(data) as { sequence_number: number }).sequence_number,
          );
          expect(numbers).toEqual(numbers.map((_, index) => index));
          expect(text.includes('event: response.failed')).toBe(!stream.finished);
        }),
        { numRuns: 1_000 },
      );
    },
    timeoutMs,
  );

  test(
    'in a reply either fails it or produces a valid response',
    () => {
      fc.assert(
        fc.property(value.typed, (fields) => {
          const reply = readReply(
            JSON.stringify({ ...response, ...(fields as object) }),
            identity,
            echo,
          );
          if (reply.ok) expect(JSON.parse(reply.value.write(settled)).model).toBe('a/b');
        }),
        { numRuns: 1_000 },
      );
    },
    timeoutMs,
  );
});
