import { expect, test } from 'bun:test';
import { question } from '../../../../tests/support/question.ts';
import type { Prompt } from '../../../core/prompt.ts';
import { dropParameters, UnsupportedNames } from './unsupported.ts';

test('each name is told once, and thirty-two of them at most', () => {
  const foreign = new UnsupportedNames();
  for (let at = 0; at < 32; at++) {
    foreign.add(`field_${at}`);
    foreign.add('field_0');
  }
  expect(foreign.list).toHaveLength(32);
  foreign.add('one_more');
  expect(foreign.list).toHaveLength(32);
  expect(foreign.list).not.toContain('one_more');
});

const wishes: Partial<Prompt> = {
  stop: ['a'],
  user: 'ann',
  verbosity: 'low',
  promptCacheKey: 'a',
  cacheControl: { type: 'ephemeral' },
  choices: 2,
  tools: [{ name: 'look', parameters: null }],
  parallelTools: false,
  toolChoice: 'required',
  json: { schema: null, name: 'a' },
  reasoning: { effort: 'high', budgetTokens: null, visible: true },
  sampling: {
    temperature: 0,
    topP: 0.5,
    topK: 4,
    seed: 0,
    presencePenalty: 0,
    frequencyPenalty: 1,
    logprobs: false,
    topLogprobs: 2,
    logitBias: {},
  },
};
const names = [
  ...['stop', 'user', 'n', 'tool_choice', 'parallel_tool_calls', 'response_format', 'reasoning'],
  ...['temperature', 'top_p', 'top_k', 'seed', 'presence_penalty', 'frequency_penalty'],
  ...['logprobs', 'top_logprobs', 'logit_bias'],
  ...['verbosity', 'prompt_cache_key', 'cache_control', 'tools'],
];

test('everything that can be left out is, and is told', () => {
  const { prompt: dialogue, dropped } = dropParameters(question(wishes), names);
  expect(dropped).toEqual(names);
  expect(JSON.parse(JSON.stringify(dialogue))).toEqual(JSON.parse(JSON.stringify(question())));
});

test.each(names)('%s alone leaves the others as they were', (name) => {
  const { prompt: dialogue, dropped } = dropParameters(question(wishes), [name, name, 'unknown']);
  expect(dropped).toEqual([name]);
  expect(dropParameters(dialogue, names).dropped).toEqual(names.filter((other) => other !== name));
});

test('the wish to reason goes by either of its names', () => {
  const { prompt: dialogue, dropped } = dropParameters(question(wishes), [
    'reasoning_effort',
    'reasoning',
  ]);
  expect(dialogue.reasoning).toBeNull();
  expect(dropped).toEqual(['reasoning_effort']);
});

test('what the client did not ask for is not told, and nothing is copied', () => {
  const dialogue = question({ parallelTools: true });
  expect(dropParameters(dialogue, names)).toEqual({ prompt: dialogue, dropped: [] });
  expect(dropParameters(dialogue, names).prompt).toBe(dialogue);
});
