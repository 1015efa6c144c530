/**
 * The models of the demo upstream, in the format of `models:` in the configuration file. The
 * gateway lists, routes, and bills them like any other models. Prices are low but not 0, so that
 * newcomers see charges.
 */
import type { DemoModelId } from '../config/aliases.ts';
import type { Config, Model, Provider } from '../config/config.ts';
import type { ModelConfig, PricingConfig } from '../config/model-schema.ts';

export const demoProvider = 'demo';

function servedBy(model: string, pricing: PricingConfig) {
  return [{ provider: demoProvider, model, priority: 0, pricing }];
}

const voices = ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer'];

export const demoModels = [
  {
    id: 'demo/chat',
    name: 'Demo Chat',
    description:
      'Demo, not a language model: repeats the question, calls tools, fills JSON schemas.',
    context_length: 128_000,
    max_completion_tokens: 4_096,
    input_modalities: ['text', 'image'],
    output_modalities: ['text'],
    features: ['tools', 'json_mode', 'json_schema', 'reasoning'],
    thinking: 'effort',
    endpoints: servedBy('demo-chat', { prompt: '0.10', completion: '0.40' }),
  },
  {
    id: 'demo/embed',
    name: 'Demo Embeddings',
    description: 'Demo, not a model: vectors of hashed words. Texts that share words are similar.',
    context_length: 8_192,
    input_modalities: ['text'],
    output_modalities: ['text'],
    features: ['embeddings'],
    endpoints: servedBy('demo-embed', { prompt: '0.02', completion: '0' }),
  },
  {
    id: 'demo/speech',
    name: 'Demo Speech',
    description: 'Demo, not a voice: plays a short melody whose length depends on the text.',
    input_modalities: ['text'],
    output_modalities: ['audio'],
    features: ['speech'],
    speech: {
      style: 'first_party',
      voices: Object.fromEntries(voices.map((voice) => [voice, voice])),
      default_voice: 'alloy',
      input_characters_max: 4_096,
      instructions: false,
    },
    endpoints: servedBy('demo-speech', { characters: '1.00' }),
  },
  {
    id: 'demo/transcribe',
    name: 'Demo Transcription',
    description:
      'Demo, not speech recognition: returns the name, size, and length of the audio file.',
    input_modalities: ['audio'],
    output_modalities: ['text'],
    features: ['transcription'],
    endpoints: servedBy('demo-transcribe', { minute: '0.001' }),
  },
  {
    id: 'demo/image',
    name: 'Demo Images',
    description: 'Demo, not an image model: draws a color gradient that depends on the prompt.',
    input_modalities: ['text', 'image'],
    output_modalities: ['image'],
    features: ['image_edit', 'image_generation'],
    endpoints: servedBy('demo-image', { prompt: '0.10', completion: '0', output_image: '0.002' }),
  },
] satisfies (ModelConfig & { id: DemoModelId })[];

/** The demo's models while the demo is off: calls to them are rejected with the reason. */
const disabledDemoModels: readonly Model[] = demoModels.map((model) => ({
  ...model,
  endpoints: [],
  disabledReason: 'is off because a provider is configured; set demo: true to keep it',
}));

type Offers = Pick<Config, 'models' | 'providers'>;

/** Adds the demo's provider and models to those of the configuration. */
export function withDemo({ models, providers }: Offers, url: string): Offers {
  const provider: Provider = {
    name: demoProvider,
    dialect: 'openai',
    baseUrl: url,
    apiKey: null,
    headers: {},
    timeoutMs: 120_000,
    idleTimeoutMs: 120_000,
    shared: true,
    byokBaseUrl: false,
    quirks: {},
  };
  return {
    models: [...models, ...demoModels],
    providers: new Map([...providers, [demoProvider, provider]]),
  };
}

/** Adds the demo's models as disabled ones, unless the configuration uses their IDs itself. */
export function withDisabledDemo({ models, providers }: Offers): Offers {
  const isUnused = ({ id }: Model) => models.every((model) => model.id !== id);
  return { models: [...models, ...disabledDemoModels.filter(isUnused)], providers };
}
