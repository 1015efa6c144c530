import type { Config, Model } from './config.ts';

export interface ListedModel extends Model {
  /** Whether everybody can call it, with the operator's own accounts. */
  readonly isLive: boolean;
}

/** A live model has the endpoints of the operator's accounts; any other those that need a key. */
export function listedModels(config: Pick<Config, 'models' | 'providers'>): ListedModel[] {
  const { models, providers } = config;
  return models.map((model) => {
    const live = model.endpoints.filter(({ provider }) => providers.get(provider)?.shared === true);
    const isLive = live.length > 0;
    return { ...model, isLive, endpoints: isLive ? live : model.endpoints };
  });
}
