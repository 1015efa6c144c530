import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { checkAnthropicStream } from '../../../../tests/support/stream-checks.ts';
import type { FinishReason } from '../../../core/answer.ts';
import { bufferedArgumentsMax } from '../../../core/bounds.ts';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import type { StreamWriter } from '../../dialect.ts';
import { keepAlive } from '../../events.ts';
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

/** What a client sees of an answer that is told in some way. */
function seen(tell: (to: StreamWriter) => void) {
  const writer = open();
  tell(writer);
  return checkAnthropicStream(writer.take() + writer.close({ usage, costCredits: 9 }));
}

describe('a stream for an Anthropic client', () => {
  test('has no block before there are words for it', () => {
    const writer = open();
    expect(writer.take()).toBe('');
    writer.text('');
    expect(writer.take()).toBe('');
    const answer = seen((to) => to.finish('stop', null));
    expect(answer).toMatchObject({ blocks: [], stopReason: 'end_turn', ended: 'complete' });
  });

  test('begins with an estimate of its prompt and ends with what was settled', () => {
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

  test('ends a thought with its signature, also one without words', () => {
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

  test('ends with its text: signatures of the text are told only if more blocks follow', () => {
    const proven = (to: StreamWriter) => {
      to.text('Yes');
      to.reasoningSignature('gemini:sig-1');
    };
    expect(seen(proven)).toMatchObject({ blocks: ['text'], text: 'Yes', signatures: [] });
    const calling = seen((to) => {
      proven(to);
      to.toolCall(0, 'a', 'look');
    });
    expect(calling.blocks).toEqual(['text', 'thinking', 'tool_use']);
    expect(calling.signatures).toEqual(['gemini:sig-1']);
    const goingOn = seen((to) => {
      proven(to);
      to.text('But');
    });
    expect(goingOn.blocks).toEqual(['text', 'thinking', 'text']);
    expect(goingOn.signatures).toEqual(['gemini:sig-1']);
  });

  test('shows the second call as soon as the first one is complete', () => {
    const writer = open();
    writer.toolCall(0, 'a', 'look');
    writer.toolArguments(0, '{"x":"}"');
    writer.toolArguments(0, '}');
    writer.toolCall(1, 'b', 'find');
    expect(writer.take()).toContain('"name":"find"');
    writer.toolArguments(1, '{}');
    expect(writer.take()).toContain('"partial_json":"{}"');
  });

  test('keeps calls apart whose arguments come by turns', () => {
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

  test('shows what waited as soon as the call before it is complete', () => {
    const writer = open();
    for (const call of [0, 1, 2, 3]) writer.toolCall(call, `id_${call}`, `tool_${call}`);
    writer.toolArguments(1, '{"b":1}');
    writer.toolArguments(2, '{"c":');
    writer.take();
    writer.toolArguments(0, '{}');
    const shown = [...writer.take().matchAll(/"name":"(\w+)"/g)].map((match) => match[1]);
    expect(shown).toEqual(['tool_1', 'tool_2']);
  });

  test('has calls without arguments before the text that follows them', () => {
    const answer = seen((to) => {
      to.toolCall(0, 'a', 'look');
      to.toolCall(1, 'b', 'find');
      to.text('Both.');
    });
    expect(answer.blocks).toEqual(['tool_use', 'tool_use', 'text']);
  });

  test('does not let waiting arguments grow without end', () => {
    const writer = open();
    writer.toolCall(0, 'a', 'look');
    writer.toolCall(1, 'b', 'find');
    writer.toolArguments(1, 'x'.repeat(bufferedArgumentsMax));
    expect(writer.take().length).toBeLessThan(2_000);
    writer.toolArguments(1, 'x');
    expect(writer.take().length).toBeGreaterThan(bufferedArgumentsMax);
  });

  test('tells a refusal as text and by its reason', () => {
    const answer = seen((to) => {
      to.refusal('I cannot do that.');
      to.finish('stop', null);
    });
    expect(answer).toMatchObject({ text: 'I cannot do that.', stopReason: 'refusal' });
  });

  test('tells a refusal that was cut, or that calls tools, by that reason', () => {
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
  ] as const)('says %s as %s', (reason, word) => {
    expect(seen((to) => to.finish(reason, null)).stopReason).toBe(word);
  });

  test('says which stop sequence was met, and tool_use wherever there are tools', () => {
    const stopped = seen((to) => to.finish('stop_sequence', 'END'));
    expect(stopped).toMatchObject({ stopReason: 'stop_sequence', stopSequence: 'END' });
    const called = seen((to) => {
      to.toolCall(0, 'a', 'look');
      to.finish('stop', null);
    });
    expect(called.stopReason).toBe('tool_use');
  });

  test('cites sources in their text, and has pictures as blocks', () => {
    const answer = seen((to) => {
      to.text('Ruby is at 4.0');
      to.citation({ url: 'https://a.example', title: 'A', quote: 'q', range: null });
      to.image('image/png', 'aGk=');
    });
    expect(answer.blocks).toEqual(['text', 'image']);
    expect(answer.citations).toMatchObject([{ url: 'https://a.example', cited_text: 'q' }]);
  });

  test('keeps a connection alive by pings after its beginning, and fails by an event', () => {
    const writer = open();
    const said = writer.keepAlive();
    writer.text('Hi');
    const broken = new GatewayError('upstream_error', 'It broke.', { status: 504 });
    const answer = checkAnthropicStream(
      said + writer.take() + writer.keepAlive() + writer.fail(broken),
    );
    expect(answer).toMatchObject({
      ended: 'error',
      pings: 2,
      text: 'Hi',
      error: { type: 'timeout_error', message: 'It broke.' },
    });
  });

  test('has words of its own before anybody has answered', () => {
    const late = keepAlive + open().keepAlive();
    expect(checkAnthropicStream(late)).toMatchObject({ ended: 'cut', pings: 1 });
    const poor = new GatewayError('insufficient_credits', 'Too poor.');
    const seenError = checkAnthropicStream(anthropicStreamFormat.fail(poor, identity));
    expect(seenError).toMatchObject({ ended: 'error', error: { type: 'billing_error' } });
  });
});

/** Everything that can be told, in any order that the vocabulary allows. */
const content = fc.oneof(
  fc.record({ kind: fc.constantFrom('text', 'reasoning', 'refusal'), text: fc.string() }),
  fc.record({ kind: fc.constantFrom('signature', 'redacted'), text: fc.string({ minLength: 1 }) }),
  fc.record({
    kind: fc.constant('tools'),
    inputs: fc.array(fc.dictionary(fc.string(), fc.string()), { minLength: 1, maxLength: 3 }),
    /** Which call gets the next piece of its arguments. */
    order: fc.array(fc.nat(2), { maxLength: 40 }),
  }),
);

/** The signatures that clients see: all but those after a text at the end of the answer. */
function signaturesIn(told: readonly { kind: string; text?: string }[]): string[] {
  const heard = told.filter(({ text }) => text !== '');
  const last = heard.findLastIndex(({ kind }) => kind !== 'signature');
  const isText = ['text', 'refusal'].includes(heard[last]?.kind ?? '');
  const found = isText ? heard.slice(0, last) : heard;
  return found.flatMap(({ kind, text }) => (kind === 'signature' && text ? [text] : []));
}

test('whatever is told, in whatever pieces, obeys the rules and loses nothing', () => {
  fc.assert(
    fc.property(fc.array(content, { maxLength: 12 }), (told) => {
      const inputs: object[] = [];
      const answer = seen((to) => {
        for (const word of told) {
          if ('text' in word) {
            if (word.kind === 'text') to.text(word.text);
            else if (word.kind === 'reasoning') to.reasoning(word.text);
            else if (word.kind === 'refusal') to.refusal(word.text);
            else if (word.kind === 'signature') to.reasoningSignature(word.text);
            else to.redactedReasoning(word.text);
            continue;
          }
          const first = inputs.length;
          const left = word.inputs.map((input) => JSON.stringify(input));
          for (const at of left.keys()) to.toolCall(first + at, `id_${first + at}`, 'look');
          for (const choice of [...word.order, ...left.keys()]) {
            const at = choice % left.length;
            const isLast = choice === at && word.order.length === 0;
            const piece = isLast ? (left[at] ?? '') : (left[at] ?? '').slice(0, 3);
            left[at] = (left[at] ?? '').slice(piece.length);
            to.toolArguments(first + at, piece);
          }
          for (const [at, rest] of left.entries()) to.toolArguments(first + at, rest);
          inputs.push(...word.inputs);
        }
        to.finish('stop', null);
      });
      const said = (kinds: readonly string[]) =>
        told.flatMap((word) => ('text' in word && kinds.includes(word.kind) ? [word.text] : []));
      expect(answer.ended).toBe('complete');
      expect(answer.text).toBe(said(['text', 'refusal']).join(''));
      expect(answer.thinking).toBe(said(['reasoning']).join(''));
      expect(answer.signatures).toEqual(signaturesIn(told));
      expect(answer.tools.map(({ input }) => input)).toEqual(inputs);
    }),
    { numRuns: 300 },
  );
});

const settled = { usage: { ...noUsage, inputTokens: 3, outputTokens: 4 }, costCredits: 1 };

/** The inputs of the calls, each told in pieces of two characters. */
function inputsOf(...calls: readonly string[]): unknown[] {
  const writer = new AnthropicStreamWriter(identity, 9);
  for (const [call, json] of calls.entries()) {
    writer.toolCall(call, `call_${call}`, 'f');
    for (const piece of json.match(/.{1,2}/gs) ?? []) writer.toolArguments(call, piece);
  }
  writer.finish('tool_calls', null);
  const said = writer.take() + writer.close(settled);
  checkAnthropicStream(said);
  const inputs = calls.map(() => '');
  for (const [, at, json] of said.matchAll(
    /"index":(\d+),"delta":\{[^\n]*"partial_json":(.*)\}\}/g,
  )) {
    inputs[Number(at)] += JSON.parse(String(json));
  }
  return inputs.map((json) => JSON.parse(json || '{}'));
}

describe('the input of a tool, streamed to a client that parses it as an object', () => {
  test.each<[string, unknown]>([
    ['{"a":1}', { a: 1 }],
    ['  {"a":1}', { a: 1 }],
    ['[1,2]', { arguments: [1, 2] }],
    ['"Bern"', { arguments: 'Bern' }],
    ['city=Bern', { arguments: 'city=Bern' }],
    ['[INFO] copy a to b', { arguments: '[INFO] copy a to b' }],
    ['   ', {}],
    ['', {}],
  ])('%j', (json, input) => {
    expect(inputsOf(json)).toEqual([input]);
    expect(inputsOf(json, '{"b":2}', json)).toEqual([input, { b: 2 }, input]);
  });

  test('that is complete ends there: servers repeat inputs and close brackets twice', () => {
    for (const more of ['}', '{"a":1}', '\n```', ' ']) {
      expect(inputsOf(`{"a":1}${more}`)).toEqual([{ a: 1 }]);
      expect(inputsOf(`{"a":1}${more}`, '{"b":2}')).toEqual([{ a: 1 }, { b: 2 }]);
    }
  });

  const half = '{"a":1,"b":"x';

  test.each<[string, string[], FinishReason, boolean]>([
    ['breaks off', [half], 'tool_calls', true],
    ['breaks off before another call', [half, '{"b":2}'], 'stop', true],
    ['breaks off after another call', ['{"b":2}', half], 'tool_calls', true],
    ['waits for one without arguments', ['', half], 'tool_calls', true],
    ['is complete', ['', '{"b":2}', 'city=Bern', '{"b":2}}'], 'tool_calls', false],
    ['breaks off at the limit of tokens, as the stop reason says', [half], 'length', false],
  ])('is half an input if it %s', (_, calls, reason, isHalf) => {
    const writer = new AnthropicStreamWriter(identity, 9);
    for (const [call, json] of calls.entries()) {
      writer.toolCall(call, `call_${call}`, 'f');
      writer.toolArguments(call, json);
    }
    writer.finish(reason, null);
    expect(writer.hasOpenToolCall).toBe(isHalf);
  });

  test('is half an input until its rest comes, also behind a finish reason', () => {
    const writer = new AnthropicStreamWriter(identity, 9);
    writer.toolCall(0, 'call_0', 'f');
    writer.toolArguments(0, half);
    writer.finish('tool_calls', null);
    writer.toolArguments(0, '"}');
    expect(writer.hasOpenToolCall).toBe(false);
  });

  /** A call that got this input before a text ended its block. */
  const endedAfter = (json: string) => {
    const writer = new AnthropicStreamWriter(identity, 9);
    writer.toolCall(0, 'call_0', 'f');
    writer.toolArguments(0, json);
    writer.text('Hi');
    return (more: string) => writer.toolArguments(0, more);
  };

  test('that continues after its block fails the answer: no tool is run with half an input', () => {
    expect(() => endedAfter('{"path":"a')('bc"}')).toThrow(MalformedAnswer);
    expect(() => endedAfter('{"path":"abc"')('}')).toThrow(MalformedAnswer);
    expect(() => endedAfter('')('{"path":"abc"}')).toThrow(MalformedAnswer);
  });

  test('that is complete at the end of its block may be repeated after it', () => {
    endedAfter('{"path":"abc"}')('{"path":"abc"}');
    for (const nothing of ['', ' ', '{}', '{ }']) endedAfter('')(nothing);
  });
});
