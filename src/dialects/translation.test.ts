import { expect, test } from 'bun:test';
import { question, says, targetOf } from '../../tests/support/question.ts';
import { ToldAnswer } from '../../tests/support/told-answer.ts';
import type { Dialogue } from '../core/dialogue.ts';
import { noUsage } from '../core/usage.ts';
import { Tally } from './answer/tally.ts';
import { openAiClient } from './openai/client.ts';
import { translate } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

test('whoever listens to the tally hears which usage is a guess', () => {
  const told = new ToldAnswer();
  const tally = new Tally(told);
  tally.usage(noUsage, true);
  expect([told.isEstimate, tally.facts.isEstimate]).toEqual([true, true]);
  tally.usage(noUsage);
  expect([told.isEstimate, tally.facts.isEstimate]).toEqual([false, false]);
});

/** What an answer that is cut is billed by, and what forbids a second attempt. */
test.each<[string, (to: Tally) => void, number]>([
  ['words', (to) => to.text('Hello'), 5],
  ['thoughts', (to) => to.reasoning('Hmm'), 3],
  ['hidden thoughts', (to) => to.redactedReasoning('EncA'), 4],
  ['refusals', (to) => to.refusal('No.'), 3],
  ['the name of a call', (to) => to.toolCall(0, 'call_1', 'look'), 4],
  ['a signature, which is nobody’s words', (to) => to.reasoningSignature('EqYC'), 0],
])('%s are counted, and begin an answer', (_, tell, characters) => {
  const tally = new Tally(new ToldAnswer());
  expect([tally.started, tally.facts.outputCharacters]).toEqual([false, 0]);
  tell(tally);
  expect([tally.started, tally.facts.outputCharacters]).toEqual([true, characters]);
});

test('arguments count beside the name of their call, and a finish counts for nothing', () => {
  const tally = new Tally(new ToldAnswer());
  tally.toolCall(0, 'call_1', 'look');
  tally.toolArguments(0, '{"a":1}');
  tally.finish('tool_calls', null);
  expect(tally.facts).toMatchObject({ outputCharacters: 11, finishReason: 'tool_calls' });
});

const client = openAiClient({ includeUsage: false });
const call = { kind: 'tool_call', id: 'call_1', name: 'look', arguments: '{}' } as const;
const earlier: Dialogue['turns'] = [
  says('Look.'),
  { role: 'assistant', parts: [call] },
  says('So?'),
];

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const)(
  'a tool that %s cannot be made to call, because there is none, is named as dropped',
  (name) => {
    const upstream = upstreamDialect(name);
    if (!upstream) throw new Error(`There is no upstream dialect ${name}.`);
    const written = (change: Partial<Dialogue>) => {
      const { body, dropped } = translate(question(change), client, upstream).write(targetOf());
      return { choice: /tool_?choice/i.test(String(body)), dropped };
    };
    const silent = { choice: false, dropped: ['tool_choice'] };
    expect(written({ toolChoice: 'required' })).toEqual(silent);
    expect(written({ toolChoice: { name: 'look' } })).toEqual(silent);
    // Bedrock is told of tools that were called earlier, whoever left them out.
    expect(written({ toolChoice: { name: 'look' }, turns: earlier })).toEqual(silent);
    for (const toolChoice of [null, 'auto', 'none'] as const) {
      expect(written({ toolChoice })).toEqual({ choice: false, dropped: [] });
    }
    const tools = [{ name: 'look', parameters: null }];
    expect(written({ toolChoice: { name: 'look' }, tools }).dropped).toEqual([]);
  },
);
