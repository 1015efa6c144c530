import type { Config, Provider } from '../config/config.ts';
import { demoModels, demoProvider } from '../demo/demo-models.ts';
import { Catalogue } from '../route/catalogue.ts';

export function makeCatalogue(config: Config, demoUrl: string | undefined): Catalogue {
  if (demoUrl === undefined) return new Catalogue(config.models, config.providers);
  const provider: Provider = {
    name: demoProvider,
    dialect: 'openai',
    baseUrl: demoUrl,
    apiKey: null,
    headers: {},
    timeoutMs: 120_000,
    idleTimeoutMs: 120_000,
    shared: true,
    byokBaseUrl: false,
    quirks: {},
  };
  return new Catalogue(
    [...config.models, ...demoModels],
    new Map([...config.providers, [demoProvider, provider]]),
  );
}
