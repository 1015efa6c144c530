import type { DialectName, Quirks } from '../config/provider-schema.ts';

/** Which optional chat parameters an upstream understands: for the model list and for routing. */

const openai = [
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'n',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning',
  'reasoning_effort',
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'stop',
  'frequency_penalty',
  'presence_penalty',
  'seed',
];

const byDialect: Readonly<Record<DialectName, readonly string[]>> = {
  openai,
  siliconflow: openai,
  'openai-responses': [
    'max_tokens',
    'max_completion_tokens',
    'temperature',
    'top_p',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'response_format',
    'reasoning',
    'reasoning_effort',
  ],
  anthropic: [
    'max_tokens',
    'max_completion_tokens',
    'temperature',
    'top_p',
    'top_k',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'response_format',
    'reasoning',
    'reasoning_effort',
    'stop',
  ],
  gemini: [
    'max_tokens',
    'max_completion_tokens',
    'temperature',
    'top_p',
    'top_k',
    'tools',
    'tool_choice',
    'response_format',
    'reasoning',
    'reasoning_effort',
    'stop',
    'frequency_penalty',
    'presence_penalty',
    'seed',
  ],
  cohere: [],
};

interface Speaker {
  readonly dialect: DialectName;
  readonly quirks: Quirks;
}

export function supportsParameter({ dialect, quirks }: Speaker, name: string): boolean {
  if (quirks.drop_params?.includes(name)) return false;
  // What no dialect lists is unknown to us, and OpenAI-style upstreams get it as it is.
  return byDialect[dialect].includes(name) || (dialect in passing && !openai.includes(name));
}

const passing: Partial<Record<DialectName, true>> = { openai: true, siliconflow: true };

/** Everything at least one of a model's offers takes. */
export function supportedParameters(offers: readonly Speaker[]): readonly string[] {
  return openai.filter((name) => offers.some((offer) => supportsParameter(offer, name)));
}
