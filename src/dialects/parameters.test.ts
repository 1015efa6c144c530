import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget } from '../../tests/support/prompts.ts';
import type { Prompt } from '../core/prompt.ts';
import { presentParameterNames } from './normalize/requests/vendor-parameters.ts';
import { supportedParameters, supportsParameter } from './parameters.ts';
import { dialects } from './registry.ts';

const plain = { dialect: 'openai', quirks: {} } as const;

test('supportsParameter accepts cache_control for Anthropic but not for Gemini', () => {
  const supports = (dialect: 'anthropic' | 'gemini') =>
    supportsParameter({ dialect, quirks: {} }, 'cache_control');
  expect([supports('anthropic'), supports('gemini')]).toEqual([true, false]);
});

test('supportsParameter accepts user and safety_identifier for OpenAI and Anthropic', () => {
  const names = ['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const;
  for (const name of ['user', 'safety_identifier']) {
    const supports = names.filter((dialect) => supportsParameter({ dialect, quirks: {} }, name));
    expect(supports).toEqual(['openai', 'openai-responses', 'anthropic']);
  }
});

test('presentParameterNames ignores the default tool choice', () => {
  const present = (tool_choice: unknown) => presentParameterNames({ tools: [], tool_choice });
  for (const choice of ['auto', { type: 'auto' }, null]) expect(present(choice)).toEqual(['tools']);
  for (const choice of ['required', { type: 'any' }, 'none']) {
    expect(present(choice)).toEqual(['tools', 'tool_choice']);
  }
});

describe('supportedParameters', () => {
  test("returns the endpoint's parameters for a model without chat", () => {
    const listed = (...features: Parameters<typeof supportedParameters>[0]['features']) =>
      supportedParameters({ features, isChat: false }, [plain]);
    expect(listed('embeddings')).toEqual(['dimensions', 'encoding_format']);
    expect(listed('speech')).toContain('speed');
    expect(listed('speech')).not.toContain('temperature');
    expect(listed('transcription')).toContain('language');
    expect(listed('image_generation', 'image_edit')).toEqual([
      'n',
      'size',
      'quality',
      'background',
      'output_format',
    ]);
  });

  test('omits parameters whose feature the chat model lacks', () => {
    const listed = (...features: Parameters<typeof supportedParameters>[0]['features']) =>
      supportedParameters({ features, isChat: true }, [plain]);
    const tools = ['tools', 'tool_choice', 'parallel_tool_calls'];
    const reasoning = ['reasoning', 'reasoning_effort'];
    const optional = [...tools, 'response_format', ...reasoning];
    expect(listed().filter((name) => optional.includes(name))).toEqual([]);
    expect(listed()).toContain('temperature');
    expect(listed('tools')).toEqual(expect.arrayContaining(tools));
    expect(listed('json_mode')).toContain('response_format');
    expect(listed('json_schema')).toContain('response_format');
    expect(listed('reasoning')).toEqual(expect.arrayContaining(reasoning));
  });

  test('omits parameters that every endpoint drops', () => {
    const dropping = { ...plain, quirks: { drop_params: ['quality', 'seed'] } };
    const image = { features: ['image_edit'], isChat: false } as const;
    expect(supportedParameters(image, [dropping])).not.toContain('quality');
    expect(supportedParameters(image, [dropping, plain])).toContain('quality');
    const chat = { features: [], isChat: true } as const;
    expect(supportedParameters(chat, [dropping])).not.toContain('seed');
    expect(supportedParameters(chat, [dropping])).toContain('temperature');
  });
});

test.each([
  ['openai', ['temperature', 'logit_bias', 'a_new_one'], []],
  ['anthropic', ['temperature', 'top_k', 'stop', 'parallel_tool_calls'], ['n', 'seed']],
  ['gemini', ['top_k', 'stop', 'seed', 'n'], ['logit_bias', 'parallel_tool_calls']],
  ['cohere', [], ['temperature']],
] as const)('supportsParameter for %s accepts %j and not %j', (dialect, supported, unsupported) => {
  const supports = (name: string, quirks = {}) => supportsParameter({ dialect, quirks }, name);
  expect(supported.filter((name) => !supports(name))).toEqual([]);
  expect(unsupported.filter((name) => supports(name))).toEqual([]);
  expect(supported.filter((name) => supports(name, { drop_params: [name] }))).toEqual([]);
});

test('supportsParameter treats reasoning and reasoning_effort as one option', () => {
  const names = ['reasoning', 'reasoning_effort'];
  for (const droppedName of names) {
    const quirks = { drop_params: [droppedName] };
    const supports = (name: string) => supportsParameter({ dialect: 'openai', quirks }, name);
    expect(names.filter(supports)).toEqual([]);
  }
});

const tools = [{ name: 'look', parameters: null }];

/** Every option of a prompt, by its parameter name. */
const options: Readonly<Record<string, Partial<Prompt>>> = {
  temperature: { sampling: { temperature: 0.5 } },
  top_p: { sampling: { topP: 0.5 } },
  top_k: { sampling: { topK: 5 } },
  seed: { sampling: { seed: 5 } },
  presence_penalty: { sampling: { presencePenalty: 0.5 } },
  frequency_penalty: { sampling: { frequencyPenalty: 0.5 } },
  logprobs: { sampling: { logprobs: true } },
  top_logprobs: { sampling: { topLogprobs: 5 } },
  logit_bias: { sampling: { logitBias: { 5: 1 } } },
  stop: { stop: ['END'] },
  user: { user: 'somebody' },
  verbosity: { verbosity: 'low' },
  prompt_cache_key: { promptCacheKey: 'a key' },
  n: { choices: 2 },
  tools: { tools },
  tool_choice: { tools, toolChoice: 'required' },
  parallel_tool_calls: { tools, parallelTools: false },
  response_format: { json: { schema: null, name: 'answer' } },
  reasoning: { reasoning: { effort: 'high', budgetTokens: null, visible: true } },
  cache_control: { cacheControl: { type: 'ephemeral' } },
};

test.each(['anthropic', 'gemini', 'bedrock', 'openai-responses'] as const)(
  'a request to %s drops exactly the parameters that the dialect does not support',
  (dialect) => {
    const supports = (name: string) => supportsParameter({ dialect, quirks: {} }, name);
    const isSent = (name: string) => {
      const prompt = makePrompt(options[name]);
      const { dropped = [] } = dialects[dialect].chat?.write(prompt, makeTarget()) ?? {};
      return !dropped.includes(name);
    };
    const names = Object.keys(options);
    expect(names.filter(isSent)).toEqual(names.filter(supports));
  },
);
