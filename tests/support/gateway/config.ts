// Creates a configuration whose models are served by fake upstreams.

export interface UpstreamConfig {
  /** The fake upstream's URL without `/v1`. */
  readonly url: string;
  readonly dialect?: string;
  readonly api_key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeout_ms?: number;
  readonly idle_timeout_ms?: number;
  readonly quirks?: object;
  /**
   * Models by alias. Prices are in dollars per million tokens and default to "1". `name` is the
   * upstream's model name, which defaults to the part of the alias after the slash.
   */
  readonly models: Readonly<Record<string, ModelConfig>>;
}

interface ModelConfig {
  readonly name?: string;
  readonly priority?: number;
  readonly prompt?: string;
  readonly completion?: string;
  /** Other prices, such as `cache_read` and `request`. */
  readonly pricing?: object;
  /** Fields of the model, such as `context_length` and `features`. */
  readonly model?: Readonly<Record<string, unknown>>;
}

/** A model that is listed for several upstreams gets an endpoint at each, in this order. */
export function upstreamConfig(upstreams: Readonly<Record<string, UpstreamConfig>>): object {
  const models = new Map<string, { fields: object; endpoints: object[] }>();
  const providers: Record<string, object> = {};
  Object.entries(upstreams).forEach(([provider, { url, models: offered, ...rest }], position) => {
    const base = { dialect: 'openai', base_url: `${url}/v1`, api_key: 'sk-upstream-test-key' };
    providers[provider] = { ...base, ...rest };
    for (const [alias, model] of Object.entries(offered)) {
      const known = models.get(alias) ?? { fields: {}, endpoints: [] };
      known.fields = { ...known.fields, ...model.model };
      known.endpoints.push(endpoint(provider, alias, model, position));
      models.set(alias, known);
    }
  });
  return {
    catalogue: 'none',
    providers,
    models: [...models].map(([id, { fields, endpoints }]) => ({
      ...plain(id),
      ...fields,
      endpoints,
    })),
  };
}

function endpoint(provider: string, alias: string, model: ModelConfig, position: number): object {
  const { name = alias.slice(alias.indexOf('/') + 1), priority = position } = model;
  const { prompt = '1', completion = '1', pricing = {} } = model;
  return { provider, model: name, priority, pricing: { prompt, completion, ...pricing } };
}

function plain(id: string): object {
  return {
    id,
    name: id,
    context_length: 128_000,
    max_completion_tokens: 16_384,
    input_modalities: ['text', 'image'],
    output_modalities: ['text'],
    features: ['tools', 'json_mode', 'reasoning'],
  };
}
