import type { Feature } from '../config/model-schema.ts';
import type { DialectName, Quirks } from '../config/provider-schema.ts';
import { dropsParameter } from './normalize/requests/vendor-parameters.ts';
import { dialects } from './registry.ts';

// Determines which optional parameters an upstream supports. Used for the model list and for
// routing.

/** The parameters that the model list can show, in this order. */
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

interface DialectAndQuirks {
  readonly dialect: DialectName;
  readonly quirks: Quirks;
}

/** Returns true if the dialect can express the parameter and no quirk drops it. */
export function supportsParameter({ dialect, quirks }: DialectAndQuirks, name: string): boolean {
  const supported = dialects[dialect].chat?.parameters ?? [];
  return !dropsParameter(quirks, name) && (supported === 'everything' || supported.includes(name));
}

/** The parameters of models without chat, by feature. */
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

/** A chat model supports a parameter if it has at least one of these features. */
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
  readonly isChat: boolean;
}

/** Returns the parameters that the model and at least one of its offers support. */
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
