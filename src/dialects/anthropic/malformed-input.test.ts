/** Checks that malformed input is handled or rejected, and never causes an unexpected error. */
import { expect, test } from 'bun:test';
import { makeTarget } from '../../../tests/support/prompts.ts';
import { fc } from '../../../tests/support/random.ts';
import { RecordingSink } from '../../../tests/support/recording-sink.ts';
import { dialectNames } from '../../config/provider-schema.ts';
import { GatewayError } from '../../core/errors.ts';
import { noUsage } from '../../core/usage.ts';
import { readCountRequest, readMessagesRequest } from './client/request.ts';
import { anthropicClientRequest } from './client-request.ts';
import { anthropicCount, countable } from './count-tokens.ts';
import { readReply } from './passthrough/reply.ts';
import { AnthropicPassThrough } from './passthrough/stream.ts';
import { AnthropicStreamReader, readFullReply } from './upstream/reader.ts';

const identity = { id: 'chatcmpl-0123456789abcdef', model: 'a/b', provider: 'a', created: 1 };
const runs = { numRuns: 200 };
const timeoutMs = 120_000;

/** Ignores all events, because only the reader is tested here. */
class IgnoringSink extends RecordingSink {
  override text(): void {}
  override reasoning(): void {}
  override reasoningSignature(): void {}
  override redactedReasoning(): void {}
  override toolCall(): void {}
  override toolArguments(): void {}
  override citation(): void {}
  override finish(): void {}
}

const names = (...content: string[]) => fc.constantFrom<unknown>(...content, 5, null, '');
const blockTypes = names(
  'text',
  'image',
  'document',
  'thinking',
  'redacted_thinking',
  'tool_use',
  'tool_result',
  'server_tool_use',
);
const deltaTypes = names('text_delta', 'thinking_delta', 'signature_delta', 'input_json_delta');
const odd = fc.oneof(
  { weight: 3, arbitrary: fc.jsonValue({ maxDepth: 1 }) },
  { weight: 1, arbitrary: fc.string() },
);

function oneWith(type: fc.Arbitrary<unknown>, fields: readonly string[]) {
  const some = fc.dictionary(fc.constantFrom(...fields), odd);
  return fc.tuple(type, some).map(([of, extraFields]) => ({ type: of, ...extraFields }));
}

const block = oneWith(blockTypes, ['text', 'thinking', 'signature', 'data', 'id', 'name', 'input']);
const delta = oneWith(deltaTypes, ['text', 'thinking', 'partial_json', 'stop_reason', 'signature']);
const event = fc
  .tuple(
    names('message_start', 'content_block_start', 'content_block_delta', 'content_block_stop'),
    names('message_delta', 'message_stop', 'ping', 'error'),
    fc.boolean(),
    fc.record(
      {
        index: odd,
        content_block: fc.oneof(block, odd),
        delta: fc.oneof(delta, odd),
        message: odd,
        usage: odd,
        error: odd,
      },
      { requiredKeys: [] },
    ),
  )
  .map(([a, b, isFirst, fields]) => JSON.stringify({ type: isFirst ? a : b, ...fields }));

test(
  'AnthropicStreamReader and AnthropicPassThrough accept any events',
  () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(event, fc.string()), { maxLength: 20 }), (events) => {
        const reader = new AnthropicStreamReader(new IgnoringSink());
        const relay = new AnthropicPassThrough(identity, 9);
        for (const data of events) {
          reader.push({ event: null, data });
          expect(relay.push({ event: null, data })).toMatch(/^(?:event: [\w.-]+\ndata: .*\n\n)*$/);
        }
        relay.close({ usage: noUsage, costCredits: 0 });
      }),
      runs,
    );
  },
  timeoutMs,
);

test(
  'readFullReply and readReply accept any reply',
  () => {
    const fields = ['content', 'stop_reason', 'usage', 'error', 'model', 'message'];
    const reply = fc.dictionary(fc.constantFrom(...fields), fc.oneof(odd, fc.array(block)));
    fc.assert(
      fc.property(reply, (body) => {
        const text = JSON.stringify(body);
        readFullReply(text, new IgnoringSink());
        const relay = readReply(text, identity);
        if (relay.ok) JSON.parse(relay.value.write({ usage: noUsage, costCredits: 0 }));
      }),
      runs,
    );
  },
  timeoutMs,
);

const textBlock = fc.record({ type: fc.constant('text'), text: fc.string() });
const callBlock = fc.record({
  type: fc.constant('tool_use'),
  id: fc.string({ minLength: 1 }),
  name: fc.string({ minLength: 1 }),
  input: fc.dictionary(fc.string(), fc.jsonValue()),
});
const resultBlock = fc.record({
  type: fc.constant('tool_result'),
  tool_use_id: fc.string({ minLength: 1 }),
  content: fc.oneof(fc.string(), fc.array(fc.oneof(textBlock, block), { maxLength: 2 })),
});
const novelty = fc.record({ type: fc.constant('novelty'), text: odd });
const mostly = <T>(good: fc.Arbitrary<T>, bad: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 20, arbitrary: good }, { weight: 1, arbitrary: bad });
const messageOf = (role: string, ...blocks: fc.Arbitrary<unknown>[]) =>
  fc.record({
    role: mostly(fc.constant(role), fc.string()),
    content: mostly(
      fc.oneof(fc.string(), fc.array(fc.oneof(textBlock, novelty, ...blocks), { maxLength: 3 })),
      fc.array(block),
    ),
  });
const request = fc.record(
  {
    messages: fc.array(
      fc.oneof(
        messageOf('user', resultBlock),
        messageOf('assistant', callBlock),
        messageOf('system'),
      ),
      { minLength: 1, maxLength: 4 },
    ),
    max_tokens: mostly(fc.constant(5), odd),
    system: mostly(fc.oneof(fc.string(), fc.array(textBlock, { maxLength: 2 })), odd),
    tools: mostly(
      fc.array(
        fc.record({
          name: fc.stringMatching(/^[a-z]{1,5}$/),
          input_schema: fc.dictionary(fc.string(), fc.jsonValue()),
        }),
      ),
      odd,
    ),
    thinking: mostly(fc.constant({ type: 'adaptive' }), odd),
    output_config: mostly(fc.constant({ effort: 'low' }), odd),
    novelty: odd,
  },
  { requiredKeys: ['messages', 'max_tokens'] },
);

test(
  'any client request is written for every upstream or rejected with 400',
  () => {
    let accepted = 0;
    fc.assert(
      fc.property(request, (fields) => {
        const text = JSON.stringify({ model: 'a/b', ...fields });
        try {
          const source = { text, bytes: new TextEncoder().encode(text) };
          const read = readMessagesRequest(JSON.parse(text), source);
          for (const dialect of dialectNames) {
            const written = anthropicClientRequest(read, new Headers())
              .adapterFor(dialect)
              ?.write(makeTarget());
            if (written) JSON.parse(String(written.body));
          }
          const count = readCountRequest(JSON.parse(text), source);
          const counting = anthropicCount(count, new Headers());
          const countRequest = counting.write({ upstreamModel: 'up', quirks: {} });
          if (countRequest) expect(JSON.parse(String(countRequest.body)).model).toBe('up');
          expect([...countable(count.body)]).not.toEqual([]);
          accepted += 1;
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error;
          expect(error.status).toBe(400);
          expect(error.param).toMatch(/^[a-z_]/);
        }
      }),
      runs,
    );
    expect(accepted).toBeGreaterThan(20);
  },
  timeoutMs,
);
