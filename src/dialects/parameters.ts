import type { Feature } from '../config/model-schema.ts';
import type { DialectName, Quirks } from '../config/provider-schema.ts';
import { fieldsOf } from '../core/json.ts';

/** Which optional parameters an upstream understands: for the model list and for routing. */

const everywhere = [
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'tools',
  'tool_choice',
  'functions',
  'function_call',
  'response_format',
  'reasoning',
  'reasoning_effort',
];

/** The parameters that the model list names, in its order. */
const listed = [
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

const whoAsks = ['user', 'safety_identifier'];

/** OpenAI-style upstreams get everything, also what is unknown to us. */
const byDialect: Readonly<Record<DialectName, readonly string[] | 'everything'>> = {
  openai: 'everything',
  siliconflow: 'everything',
  'openai-responses': [
    ...everywhere,
    ...whoAsks,
    'parallel_tool_calls',
    'verbosity',
    'prompt_cache_key',
  ],
  anthropic: [...everywhere, ...whoAsks, 'parallel_tool_calls', 'top_k', 'stop', 'cache_control'],
  gemini: [...everywhere, 'n', 'top_k', 'stop', 'frequency_penalty', 'presence_penalty', 'seed'],
  bedrock: [...everywhere, 'top_k', 'stop'],
  cohere: [],
};

interface Speaker {
  readonly dialect: DialectName;
  readonly quirks: Quirks;
}

/** One wish, in whichever of these words a client has for it. */
const reasoningNames = ['reasoning', 'reasoning_effort'];

/** Whether the operator says that the upstream does not take the parameter. */
export function refuses({ drop_params: refused }: Quirks, name: string): boolean {
  if (refused === undefined) return false;
  const names = reasoningNames.includes(name) ? reasoningNames : [name];
  return names.some((one) => refused.includes(one));
}

export function supportsParameter({ dialect, quirks }: Speaker, name: string): boolean {
  const taken = byDialect[dialect];
  return !refuses(quirks, name) && (taken === 'everything' || taken.includes(name));
}

/** The names of the parameters that a request sets; clients write `null` to leave one out. */
export function namesGiven(parameters: object): readonly string[] {
  const given = Object.entries(parameters).filter(([, value]) => (value ?? null) !== null);
  return given.filter((field) => !leavesChoice(field)).map(([name]) => name);
}

/** `auto` is what every model does by default, even one that cannot be forced to call a tool. */
function leavesChoice([name, value]: readonly [string, unknown]): boolean {
  return name === 'tool_choice' && (value === 'auto' || fieldsOf(value).type === 'auto');
}

/** Parameters of models that have an endpoint of their own, by the feature that says which. */
const byFeature: Readonly<Partial<Record<Feature, readonly string[]>>> = {
  embeddings: ['dimensions', 'encoding_format'],
  speech: ['response_format', 'speed', 'instructions', 'stream_format'],
  transcription: [
    'language',
    'prompt',
    'response_format',
    'temperature',
    'timestamp_granularities',
  ],
  image_generation: ['n', 'size', 'quality', 'background', 'output_format'],
  image_edit: ['n', 'size', 'quality', 'background', 'output_format'],
};

/** The features of which a chat model needs at least one to take a parameter. */
const needing: Readonly<Record<string, readonly Feature[]>> = {
  tools: ['tools'],
  tool_choice: ['tools'],
  parallel_tool_calls: ['tools'],
  response_format: ['json_mode', 'json_schema'],
  reasoning: ['reasoning'],
  reasoning_effort: ['reasoning'],
};

interface Listed {
  readonly features: readonly Feature[];
  /** Whether the model can chat. */
  readonly isChat: boolean;
}

/** The parameters that the model can use and at least one of its offers takes. */
export function supportedParameters(
  { features, isChat }: Listed,
  offers: readonly Speaker[],
): readonly string[] {
  const isAble = (name: string) =>
    needing[name]?.some((feature) => features.includes(feature)) ?? true;
  const names = isChat
    ? listed.filter(isAble)
    : features.flatMap((feature) => byFeature[feature] ?? []);
  const takes = (offer: Speaker, name: string) =>
    isChat ? supportsParameter(offer, name) : !offer.quirks.drop_params?.includes(name);
  return [...new Set(names)].filter((name) => offers.some((offer) => takes(offer, name)));
}
