import { expect, test } from 'bun:test';
import { makePrompt } from '../../../../tests/support/prompts.ts';
import type { Prompt } from '../../../core/prompt.ts';
import { dropParameters } from './drop-parameters.ts';
import { UnsupportedNames } from './unsupported.ts';

test('UnsupportedNames records each name once, up to 32', () => {
  const unsupported = new UnsupportedNames();
  for (let index = 0; index < 32; index++) {
    unsupported.add(`field_${index}`);
    unsupported.add('field_0');
  }
  expect(unsupported.list).toHaveLength(32);
  unsupported.add('one_more');
  expect(unsupported.list).toHaveLength(32);
  expect(unsupported.list).not.toContain('one_more');
});

const options: Partial<Prompt> = {
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

test('dropParameters removes and reports every parameter', () => {
  const { prompt, dropped } = dropParameters(makePrompt(options), names);
  expect(dropped).toEqual(names);
  expect(JSON.parse(JSON.stringify(prompt))).toEqual(JSON.parse(JSON.stringify(makePrompt())));
});

test.each(names)('dropParameters removes only %s', (name) => {
  const { prompt, dropped } = dropParameters(makePrompt(options), [name, name, 'unknown']);
  expect(dropped).toEqual([name]);
  expect(dropParameters(prompt, names).dropped).toEqual(names.filter((other) => other !== name));
});

test('dropParameters removes reasoning by either name', () => {
  const { prompt, dropped } = dropParameters(makePrompt(options), [
    'reasoning_effort',
    'reasoning',
  ]);
  expect(prompt.reasoning).toBeNull();
  expect(dropped).toEqual(['reasoning_effort']);
});

test('dropParameters returns the same prompt if nothing is set', () => {
  const prompt = makePrompt({ parallelTools: true });
  expect(dropParameters(prompt, names)).toEqual({ prompt, dropped: [] });
  expect(dropParameters(prompt, names).prompt).toBe(prompt);
});
