import { describe, expect, test } from 'bun:test';
import { fc } from '../../../../tests/support/random.ts';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { checkAnthropicStream } from '../../../../tests/support/stream-checks.ts';
import { bufferedArgumentsMax } from '../../../core/bounds.ts';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import type { StreamWriter } from '../../dialect.ts';
import { keepAlive } from '../../event-stream.ts';
import { MalformedAnswer } from '../../failure.ts';
import { anthropicClient } from '../client-request.ts';
import { AnthropicStreamWriter, anthropicStreamFormat } from './stream-writer.ts';

const usage = {
  ...noUsage,
  inputTokens: 20,
  cacheReadTokens: 7,
  cacheWriteTokens: 3,
  outputTokens: 5,
};

function open(): StreamWriter {
  return anthropicClient({ inputTokensEstimate: 12 }).writeStream(identity);
}

/** Returns what a client reads from an answer that consists of the given events. */
function seen(write: (to: StreamWriter) => void) {
  const writer = open();
  write(writer);
  return checkAnthropicStream(writer.take() + writer.close({ usage, costCredits: 9 }));
}

describe('AnthropicStreamWriter', () => {
  test('starts no block before its first text', () => {
    const writer = open();
    expect(writer.take()).toBe('');
    writer.text('');
    expect(writer.take()).toBe('');
    const answer = seen((to) => to.finish('stop', null));
    expect(answer).toMatchObject({ blocks: [], stopReason: 'end_turn', ended: 'complete' });
  });

  test('starts with estimated usage and ends with settled usage', () => {
    const writer = open();
    writer.text('Hi');
    expect(writer.take()).toContain('"input_tokens":12,');
    const answer = seen((to) => to.text('Hi'));
    expect(answer.usage).toEqual({
      input_tokens: 20,
      cache_creation_input_tokens: 3,
      cache_read_input_tokens: 7,
      output_tokens: 5,
    });
  });

  test('ends a thinking block with its signature, even without text', () => {
    const answer = seen((to) => {
      to.reasoning('let me ');
      to.reasoning('see');
      to.reasoningSignature('sig-1');
      to.reasoningSignature('gemini:sig-2');
      to.redactedReasoning('secret');
      to.text('Yes');
    });
    expect(answer).toMatchObject({
      blocks: ['thinking', 'thinking', 'redacted_thinking', 'text'],
      thinking: 'let me see',
      signatures: ['sig-1', 'gemini:sig-2'],
      redacted: ['secret'],
    });
  });

  test('writes signatures of text only if more blocks follow', () => {
    const writeSignedText = (to: StreamWriter) => {
      to.text('Yes');
      to.reasoningSignature('gemini:sig-1');
    };
    expect(seen(writeSignedText)).toMatchObject({ blocks: ['text'], text: 'Yes', signatures: [] });
    const calling = seen((to) => {
      writeSignedText(to);
      to.toolCall(0, 'a', 'look');
    });
    expect(calling.blocks).toEqual(['text', 'thinking', 'tool_use']);
    expect(calling.signatures).toEqual(['gemini:sig-1']);
    const continuing = seen((to) => {
      writeSignedText(to);
      to.text('But');
    });
    expect(continuing.blocks).toEqual(['text', 'thinking', 'text']);
    expect(continuing.signatures).toEqual(['gemini:sig-1']);
  });

  test('sends the second call as soon as the first one is complete', () => {
    const writer = open();
    writer.toolCall(0, 'a', 'look');
    writer.toolArguments(0, '{"x":"}"');
    writer.toolArguments(0, '}');
    writer.toolCall(1, 'b', 'find');
    expect(writer.take()).toContain('"name":"find"');
    writer.toolArguments(1, '{}');
    expect(writer.take()).toContain('"partial_json":"{}"');
  });

  test('separates calls with interleaved arguments', () => {
    const answer = seen((to) => {
      to.text('Two at once');
      to.toolCall(0, 'a', 'look');
      to.toolCall(1, 'b', 'find');
      to.toolCall(2, 'c', 'wait');
      to.toolArguments(1, '{"y":');
      to.toolArguments(0, '{"x":');
      to.toolArguments(1, '2}');
      to.toolArguments(0, '1}');
      to.finish('tool_calls', null);
    });
    expect(answer).toMatchObject({
      blocks: ['text', 'tool_use', 'tool_use', 'tool_use'],
      tools: [
        { id: 'a', name: 'look', input: { x: 1 } },
        { id: 'b', name: 'find', input: { y: 2 } },
        { id: 'c', name: 'wait', input: {} },
      ],
      stopReason: 'tool_use',
    });
  });

  test('sends waiting calls as soon as the previous call is complete', () => {
    const writer = open();
    for (const call of [0, 1, 2, 3]) writer.toolCall(call, `id_${call}`, `tool_${call}`);
    writer.toolArguments(1, '{"b":1}');
    writer.toolArguments(2, '{"c":');
    writer.take();
    writer.toolArguments(0, '{}');
    const shown = [...writer.take().matchAll(/"name":"(\w+)"/g)].map((match) => match[1]);
    expect(shown).toEqual(['tool_1', 'tool_2']);
  });

  test('writes calls without arguments before the text that follows them', () => {
    const answer = seen((to) => {
      to.toolCall(0, 'a', 'look');
      to.toolCall(1, 'b', 'find');
      to.text('Both.');
    });
    expect(answer.blocks).toEqual(['tool_use', 'tool_use', 'text']);
  });

  test('limits the buffer of waiting arguments', () => {
    const writer = open();
    writer.toolCall(0, 'a', 'look');
    writer.toolCall(1, 'b', 'find');
    writer.toolArguments(1, 'x'.repeat(bufferedArgumentsMax));
    expect(writer.take().length).toBeLessThan(2_000);
    writer.toolArguments(1, 'x');
    expect(writer.take().length).toBeGreaterThan(bufferedArgumentsMax);
  });

  test('writes a refusal as text with the stop reason refusal', () => {
    const answer = seen((to) => {
      to.refusal('I cannot do that.');
      to.finish('stop', null);
    });
    expect(answer).toMatchObject({ text: 'I cannot do that.', stopReason: 'refusal' });
  });

  test('prefers max_tokens and tool_use over the stop reason refusal', () => {
    const cut = seen((to) => {
      to.refusal('I cannot');
      to.finish('length', null);
    });
    const called = seen((to) => {
      to.refusal('Not that.');
      to.toolCall(0, 'a', 'look');
      to.finish('tool_calls', null);
    });
    expect([cut.stopReason, called.stopReason]).toEqual(['max_tokens', 'tool_use']);
  });

  test.each([
    ['stop', 'end_turn'],
    ['length', 'max_tokens'],
    ['content_filter', 'refusal'],
    ['pause', 'pause_turn'],
    // No tool was called, so a client would have nothing to run.
    ['tool_calls', 'end_turn'],
  ] as const)('writes the finish reason %s as %s', (reason, stopReason) => {
    expect(seen((to) => to.finish(reason, null)).stopReason).toBe(stopReason);
  });

  test('writes the matched stop sequence, and tool_use whenever there is a tool call', () => {
    const stopped = seen((to) => to.finish('stop_sequence', 'END'));
    expect(stopped).toMatchObject({ stopReason: 'stop_sequence', stopSequence: 'END' });
    const called = seen((to) => {
      to.toolCall(0, 'a', 'look');
      to.finish('stop', null);
    });
    expect(called.stopReason).toBe('tool_use');
  });

  test('writes citations in their text block, and images as blocks', () => {
    const answer = seen((to) => {
      to.text('Ruby is at 4.0');
      to.citation({ url: 'https://a.example', title: 'A', quote: 'q', range: null });
      to.image('image/png', 'aGk=');
    });
    expect(answer.blocks).toEqual(['text', 'image']);
    expect(answer.citations).toMatchObject([{ url: 'https://a.example', cited_text: 'q' }]);
  });

  test('writes pings and an error event', () => {
    const writer = open();
    const opening = writer.keepAlive();
    writer.text('Hi');
    const broken = new GatewayError('upstream_error', 'It broke.', { status: 504 });
    const answer = checkAnthropicStream(
      opening + writer.take() + writer.keepAlive() + writer.fail(broken),
    );
    expect(answer).toMatchObject({
      ended: 'error',
      pings: 2,
      text: 'Hi',
      error: { type: 'timeout_error', message: 'It broke.' },
    });
  });

  test('writes pings and errors before any answer', () => {
    const pinged = keepAlive + open().keepAlive();
    expect(checkAnthropicStream(pinged)).toMatchObject({ ended: 'truncated', pings: 1 });
    const unpaid = new GatewayError('insufficient_credits', 'No credits left.');
    const seenError = checkAnthropicStream(anthropicStreamFormat.fail(unpaid, identity));
    expect(seenError).toMatchObject({ ended: 'error', error: { type: 'billing_error' } });
  });
});

/** Any event that an answer may have. */
const content = fc.oneof(
  fc.record({ kind: fc.constantFrom('text', 'reasoning', 'refusal'), text: fc.string() }),
  fc.record({ kind: fc.constantFrom('signature', 'redacted'), text: fc.string({ minLength: 1 }) }),
  fc.record({
    kind: fc.constant('tools'),
    inputs: fc.array(fc.dictionary(fc.string(), fc.string()), { minLength: 1, maxLength: 3 }),
    /** The calls that get the next pieces of their arguments. */
    order: fc.array(fc.nat(2), { maxLength: 40 }),
  }),
);

/** Returns the signatures that clients receive: all except those after a final text. */
function signaturesIn(events: readonly { kind: string; text?: string }[]): string[] {
  const filled = events.filter(({ text }) => text !== '');
  const last = filled.findLastIndex(({ kind }) => kind !== 'signature');
  const isText = ['text', 'refusal'].includes(filled[last]?.kind ?? '');
  const found = isText ? filled.slice(0, last) : filled;
  return found.flatMap(({ kind, text }) => (kind === 'signature' && text ? [text] : []));
}

test('AnthropicStreamWriter writes a valid stream without losing anything, for any events', () => {
  fc.assert(
    fc.property(fc.array(content, { maxLength: 12 }), (events) => {
      const inputs: object[] = [];
      const answer = seen((to) => {
        for (const event of events) {
          if ('text' in event) {
            if (event.kind === 'text') to.text(event.text);
            else if (event.kind === 'reasoning') to.reasoning(event.text);
            else if (event.kind === 'refusal') to.refusal(event.text);
            else if (event.kind === 'signature') to.reasoningSignature(event.text);
            else to.redactedReasoning(event.text);
            continue;
          }
          const first = inputs.length;
          const remaining = event.inputs.map((input) => JSON.stringify(input));
          for (const at of remaining.keys()) to.toolCall(first + at, `id_${first + at}`, 'look');
          for (const choice of [...event.order, ...remaining.keys()]) {
            const at = choice % remaining.length;
            const isLast = choice === at && event.order.length === 0;
            const piece = isLast ? (remaining[at] ?? '') : (remaining[at] ?? '').slice(0, 3);
            remaining[at] = (remaining[at] ?? '').slice(piece.length);
            to.toolArguments(first + at, piece);
          }
          for (const [index, rest] of remaining.entries()) to.toolArguments(first + index, rest);
          inputs.push(...event.inputs);
        }
        to.finish('stop', null);
      });
      const textsOf = (kinds: readonly string[]) =>
        events.flatMap((event) =>
          'text' in event && kinds.includes(event.kind) ? [event.text] : [],
        );
      expect(answer.ended).toBe('complete');
      expect(answer.text).toBe(textsOf(['text', 'refusal']).join(''));
      expect(answer.thinking).toBe(textsOf(['reasoning']).join(''));
      expect(answer.signatures).toEqual(signaturesIn(events));
      expect(answer.tools.map(({ input }) => input)).toEqual(inputs);
    }),
    { numRuns: 300 },
  );
});

const settled = { usage: { ...noUsage, inputTokens: 3, outputTokens: 4 }, costCredits: 1 };

/** Returns the inputs of calls whose arguments come in pieces of 2 characters. */
function inputsOf(...calls: readonly string[]): unknown[] {
  const writer = new AnthropicStreamWriter(identity, 9);
  for (const [call, json] of calls.entries()) {
    writer.toolCall(call, `call_${call}`, 'f');
    for (const piece of json.match(/.{1,2}/gs) ?? []) writer.toolArguments(call, piece);
  }
  writer.finish('tool_calls', null);
  const output = writer.take() + writer.close(settled);
  checkAnthropicStream(output);
  const inputs = calls.map(() => '');
  for (const [, at, json] of output.matchAll(
    /"index":(\d+),"delta":\{[^\n]*"partial_json":(.*)\}\}/g,
  )) {
    inputs[Number(at)] += JSON.parse(String(json));
  }
  return inputs.map((json) => JSON.parse(json || '{}'));
}

describe('AnthropicStreamWriter tool input', () => {
  test.each<[string, unknown]>([
    ['{"a":1}', { a: 1 }],
    ['  {"a":1}', { a: 1 }],
    ['[1,2]', { arguments: [1, 2] }],
    ['"Bern"', { arguments: 'Bern' }],
    ['city=Bern', { arguments: 'city=Bern' }],
    ['[INFO] copy a to b', { arguments: '[INFO] copy a to b' }],
    ['   ', {}],
    ['', {}],
  ])('%j becomes the object %j', (json, input) => {
    expect(inputsOf(json)).toEqual([input]);
    expect(inputsOf(json, '{"b":2}', json)).toEqual([input, { b: 2 }, input]);
  });

  test('drops repeated inputs and extra brackets after a complete input', () => {
    for (const extraFields of ['}', '{"a":1}', '\n```', ' ']) {
      expect(inputsOf(`{"a":1}${extraFields}`)).toEqual([{ a: 1 }]);
      expect(inputsOf(`{"a":1}${extraFields}`, '{"b":2}')).toEqual([{ a: 1 }, { b: 2 }]);
    }
  });

  /** Returns a function that adds to a call's input after text has ended its block. */
  const endedAfter = (json: string) => {
    const writer = new AnthropicStreamWriter(identity, 9);
    writer.toolCall(0, 'call_0', 'f');
    writer.toolArguments(0, json);
    writer.text('Hi');
    return (input: string) => writer.toolArguments(0, input);
  };

  test('throws if a closed block gets more input, so that no tool runs with partial input', () => {
    expect(() => endedAfter('{"path":"a')('bc"}')).toThrow(MalformedAnswer);
    expect(() => endedAfter('{"path":"abc"')('}')).toThrow(MalformedAnswer);
    expect(() => endedAfter('')('{"path":"abc"}')).toThrow(MalformedAnswer);
  });

  test('allows a complete input to be repeated after its block', () => {
    endedAfter('{"path":"abc"}')('{"path":"abc"}');
    for (const nothing of ['', ' ', '{}', '{ }']) endedAfter('')(nothing);
  });
});
