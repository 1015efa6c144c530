/** Whatever a client or an upstream sends: an answer or a refusal, never a crash. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { makeTarget } from '../../../tests/support/prompts.ts';
import { streamOf, type WholeResponse } from '../../../tests/support/response-events.ts';
import { checkResponsesStream } from '../../../tests/support/stream-checks.ts';
import type { AnswerSink } from '../../core/answer.ts';
import { GatewayError } from '../../core/errors.ts';
import { noUsage } from '../../core/usage.ts';
import { MalformedAnswer } from '../failure.ts';
import { responsesClient } from './client/answer-writers.ts';
import { readResponsesRequest } from './client/request.ts';
import { echoOf } from './client/response-object.ts';
import type { ResponsesBody } from './client/schema.ts';
import { responsesClientRequest } from './client-request.ts';
import { readReply } from './same/reply.ts';
import { ResponsesPassThrough } from './same/stream.ts';

const timeoutMs = 120_000;
const dialects = ['openai', 'anthropic', 'gemini', 'openai-responses'] as const;

/** Fields of all kinds, with values that some of them may have and others may not. */
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

/** A sound one of its kind, with one or two things too many or too odd. */
const sound: readonly object[] = [
  { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Ho' }] },
  { type: 'function_call', call_id: 'c', name: 'a', arguments: '{}' },
  { type: 'function_call_output', call_id: 'c', output: 'x' },
  { type: 'custom_tool_call', call_id: 'd', name: 'b', input: 'x' },
  { type: 'reasoning', id: 'rs_1', summary: [{ text: 'x' }], encrypted_content: 'gAAAA' },
];
const goodParts: readonly object[] = [
  { type: 'input_text', text: 'x' },
  { type: 'input_image', image_url: 'https://a.example/b.png' },
  { type: 'input_file', file_id: 'f' },
  { type: 'refusal', refusal: 'x' },
  { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } },
];
const goodTools: readonly object[] = [
  { type: 'function', name: 'a' },
  { type: 'custom', name: 'b' },
  { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'a' }] },
  { type: 'web_search' },
];

/** Sound ones with fields that are no part of them, and now and then one that is not sound. */
function overlaid(good: readonly object[], oddWeight = 1): fc.Arbitrary<object> {
  const pair = fc.tuple(fc.constantFrom(...good), value.typed);
  return fc.oneof(
    { weight: 30, arbitrary: pair.map(([fit, odd]) => ({ ...(odd as object), ...fit })) },
    { weight: oddWeight, arbitrary: pair.map(([fit, odd]) => ({ ...fit, ...(odd as object) })) },
  );
}

const parts = fc.array(overlaid(goodParts), { maxLength: 3 });
const message = fc
  .tuple(fc.constantFrom('user', 'assistant', 'developer'), parts)
  .map(([role, content]) => ({ role, content }));
const result = parts.map((output) => ({ type: 'function_call_output', call_id: 'c', output }));
const item = fc.oneof(overlaid(sound), message, result);
const rarelyOdd = (...good: readonly unknown[]) =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constantFrom(...good) },
    { weight: 1, arbitrary: value.any },
  );

const request = fc.record(
  {
    model: fc.constant('a/b'),
    input: fc.array(item, { minLength: 1, maxLength: 4 }),
    tools: fc.array(overlaid(goodTools), { maxLength: 3 }),
    tool_choice: rarelyOdd('auto', { type: 'function', name: 'a' }, { type: 'novelty' }),
    text: rarelyOdd({ format: { type: 'json_object' } }, { verbosity: 'low' }),
    reasoning: rarelyOdd({ effort: 'low' }, { summary: 'auto' }, {}),
    include: rarelyOdd([], ['a']),
    metadata: rarelyOdd({ a: 'b' }),
  },
  { requiredKeys: ['model', 'input'] },
);

test(
  'A malformed Responses request is rejected with its field or can be sent to every upstream',
  () => {
    let taken = 0;
    const put = (body: object) => {
      const text = JSON.stringify(body);
      const source = { text, bytes: new TextEncoder().encode(text) };
      const conversation = responsesClientRequest(readResponsesRequest(JSON.parse(text), source));
      taken += 1;
      for (const dialect of dialects) {
        const sent = conversation.adapterFor(dialect)?.write(makeTarget());
        expect(JSON.parse(String(sent?.body))).toBeObject();
      }
    };
    fc.assert(
      fc.property(request, (body) => {
        try {
          put(body);
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error;
          expect(error.status).toBe(400);
          expect(error.param).not.toBeNull();
        }
      }),
      { numRuns: 2_000 },
    );
    expect(taken).toBeGreaterThan(500);
  },
  timeoutMs,
);

const identity = { id: 'chatcmpl-0123456789abcdef', model: 'a/b', provider: 'a', created: 1 };
const settled = { usage: { ...noUsage, inputTokens: 1 }, costCredits: 1 };
const tools = [{ type: 'custom', name: 'patch' }];
const body: ResponsesBody = { input: 'Hi', tools };
const echo = echoOf(body);

type Word =
  | readonly ['text' | 'reasoning' | 'refusal' | 'reasoningSignature' | 'redactedReasoning', string]
  | readonly ['call', string]
  | readonly ['arguments', number, string]
  | readonly ['citation' | 'image'];
const said = fc.string({ unit: 'grapheme', maxLength: 8 });
const word: fc.Arbitrary<Word> = fc.oneof(
  fc.tuple(
    fc.constantFrom('text', 'reasoning', 'refusal', 'reasoningSignature', 'redactedReasoning'),
    said,
  ),
  fc.tuple(fc.constant('call' as const), fc.constantFrom('look', 'patch')),
  fc.tuple(
    fc.constant('arguments' as const),
    fc.nat(3),
    fc.constantFrom('{"input":', '"x"}', '{}'),
  ),
  fc.tuple(fc.constantFrom('citation', 'image')),
);

function tell(to: AnswerSink, content: readonly Word[]): void {
  let calls = 0;
  for (const [kind, first, second] of content) {
    if (kind === 'call') {
      to.toolCall(calls, `call_${calls}`, String(first));
      calls += 1;
    } else if (kind === 'arguments') to.toolArguments(Number(first), String(second));
    else if (kind === 'citation') to.citation({ url: 'a', title: 'b', quote: '', range: null });
    else if (kind === 'image') to.image('image/png', 'aGk=');
    else to[kind](String(first));
  }
}

/** False where arguments come behind the end of their call: then nothing more is told. */
function canTell(to: AnswerSink, content: readonly Word[]): boolean {
  try {
    tell(to, content);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(MalformedAnswer);
    return false;
  }
}

test(
  'Any answer becomes a valid Responses stream, reply or failed stream',
  () => {
    const client = responsesClient(body, echo);
    fc.assert(
      fc.property(fc.array(word, { maxLength: 20 }), (content) => {
        const cut = client.writeStream(identity);
        const isWhole = canTell(cut, content);
        const failed = cut.take() + cut.fail(new GatewayError('upstream_error', 'x'));
        expect(checkResponsesStream(failed).ended).toBe('error');
        const reply = client.writeReply(identity);
        expect(canTell(reply, content)).toBe(isWhole);
        if (!isWhole) return;
        const stream = client.writeStream(identity);
        tell(stream, content);
        // Cut, so that arguments need not be whole.
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

describe('A Responses upstream that sends malformed data', () => {
  const whole = {
    id: 'resp_up',
    object: 'response',
    model: 'up-1',
    status: 'completed',
    output: [{ type: 'message', id: 'msg_1', content: [{ type: 'output_text', text: 'Hi' }] }],
  };
  const events = streamOf(whole as unknown as WholeResponse)
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
          const relay = new ResponsesPassThrough(identity, echo);
          let text = messages.map((data) => relay.push({ event: null, data })).join('');
          text += relay.finished
            ? relay.close(settled)
            : relay.fail(new GatewayError('upstream_error', 'x'));
          const numbers = [...text.matchAll(/^data: (.*)$/gm)].map(
            ([, data = '']) => (JSON.parse(data) as { sequence_number: number }).sequence_number,
          );
          expect(numbers).toEqual(numbers.map((_, at) => at));
          expect(text.includes('event: response.failed')).toBe(!relay.finished);
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
            JSON.stringify({ ...whole, ...(fields as object) }),
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
