import type { Config, Model } from './config.ts';

/** The models with the endpoints that everybody can use: those of the operator's own accounts. */
export function withLiveEndpoints({ models, providers }: Config): readonly Model[] {
  return models.map((model) => ({
    ...model,
    endpoints: model.endpoints.filter(({ provider }) => providers.get(provider)?.shared === true),
  }));
}
