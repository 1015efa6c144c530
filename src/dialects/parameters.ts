import type { Feature } from '../config/model-schema.ts';
import type { DialectName, Quirks } from '../config/provider-schema.ts';
import { fieldsOf } from '../core/json.ts';
import type { MediaTarget } from './dialect.ts';
import { serverParameters } from './normalize/requests/restricted-parameters.ts';

/** Which optional parameters an upstream understands: for the model list and for routing. */

const commonParameters = [
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
const listedParameters = [
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

const endUserParameters = ['user', 'safety_identifier'];

/** OpenAI-style upstreams get everything, also what is unknown to us. */
const parametersByDialect: Readonly<Record<DialectName, readonly string[] | 'everything'>> = {
  openai: 'everything',
  siliconflow: 'everything',
  'openai-responses': [
    ...commonParameters,
    ...endUserParameters,
    'parallel_tool_calls',
    'verbosity',
    'prompt_cache_key',
  ],
  anthropic: [
    ...commonParameters,
    ...endUserParameters,
    'parallel_tool_calls',
    'top_k',
    'stop',
    'cache_control',
  ],
  gemini: [
    ...commonParameters,
    'n',
    'top_k',
    'stop',
    'frequency_penalty',
    'presence_penalty',
    'seed',
  ],
  bedrock: [...commonParameters, 'top_k', 'stop'],
  cohere: [],
};

interface DialectAndQuirks {
  readonly dialect: DialectName;
  readonly quirks: Quirks;
}

/** One wish, in whichever of these words a client has for it. */
const reasoningNames = ['reasoning', 'reasoning_effort'];

/** Whether the operator says that the upstream does not take the parameter. */
export function dropsParameter({ drop_params: refused }: Quirks, name: string): boolean {
  if (refused === undefined) return false;
  const names = reasoningNames.includes(name) ? reasoningNames : [name];
  return names.some((alternative) => refused.includes(alternative));
}

export function supportsParameter({ dialect, quirks }: DialectAndQuirks, name: string): boolean {
  const supported = parametersByDialect[dialect];
  return !dropsParameter(quirks, name) && (supported === 'everything' || supported.includes(name));
}

/** The names of the parameters that a request sets; clients write `null` to leave one out. */
export function presentParameterNames(parameters: object): readonly string[] {
  const present = Object.entries(parameters).filter(([, value]) => (value ?? null) !== null);
  return present.filter((field) => !isDefaultToolChoice(field)).map(([name]) => name);
}

/** `auto` is what every model does by default, even one that cannot be forced to call a tool. */
function isDefaultToolChoice([name, value]: readonly [string, unknown]): boolean {
  return name === 'tool_choice' && (value === 'auto' || fieldsOf(value).type === 'auto');
}

/** Parameters of models that have an endpoint of their own, by the feature that says which. */
const parametersByFeature: Readonly<Partial<Record<Feature, readonly string[]>>> = {
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
const featuresByParameter: Readonly<Record<string, readonly Feature[]>> = {
  tools: ['tools'],
  tool_choice: ['tools'],
  parallel_tool_calls: ['tools'],
  response_format: ['json_mode', 'json_schema'],
  reasoning: ['reasoning'],
  reasoning_effort: ['reasoning'],
};

interface ListedModel {
  readonly features: readonly Feature[];
  /** Whether the model can chat. */
  readonly isChat: boolean;
}

/** The parameters that the model can use and at least one of its offers takes. */
export function supportedParameters(
  { features, isChat }: ListedModel,
  offers: readonly DialectAndQuirks[],
): readonly string[] {
  const hasFeature = (name: string) =>
    featuresByParameter[name]?.some((feature) => features.includes(feature)) ?? true;
  const names = isChat
    ? listedParameters.filter(hasFeature)
    : features.flatMap((feature) => parametersByFeature[feature] ?? []);
  const supports = (offer: DialectAndQuirks, name: string) =>
    isChat ? supportsParameter(offer, name) : !offer.quirks.drop_params?.includes(name);
  return [...new Set(names)].filter((name) => offers.some((offer) => supports(offer, name)));
}

/** Parameters as a vendor spells them: under its own names, and without those not meant for it. */
export function toVendorParameters(
  parameters: Readonly<Record<string, unknown>>,
  { quirks, isOwnAccount = false }: MediaTarget,
): { readonly fields: Readonly<Record<string, unknown>>; readonly dropped: readonly string[] } {
  const { drop_params: refused = [], rename_params: names = {} } = quirks;
  const fields: [string, unknown][] = [];
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null) continue;
    const isServerParameter = !isOwnAccount && serverParameters.has(name);
    if (isServerParameter || refused.includes(name)) dropped.push(name);
    // Not `names[name]` alone: a client's own field may be called `constructor`, which every object
    // has.
    else fields.push([Object.hasOwn(names, name) ? (names[name] ?? name) : name, value]);
  }
  return { fields: Object.fromEntries(fields), dropped };
}
