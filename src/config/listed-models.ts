import type { Config, Model } from './config.ts';

export interface ListedModel extends Model {
  /** Whether every tenant can call the model, through the operator's own accounts. */
  readonly isLive: boolean;
}

/**
 * A live model lists only the endpoints that the operator's accounts serve; any other model lists
 * those that need a tenant's own key.
 */
export function listedModels(config: Pick<Config, 'models' | 'providers'>): ListedModel[] {
  const { models, providers } = config;
  return models.map((model) => {
    const live = model.endpoints.filter(({ provider }) => providers.get(provider)?.shared === true);
    const isLive = live.length > 0;
    return { ...model, isLive, endpoints: isLive ? live : model.endpoints };
  });
}
