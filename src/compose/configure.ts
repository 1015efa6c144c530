import type { Config, Model, Provider } from '../config/config.ts';
import type { Credential } from '../core/caller.ts';
import { demoModels, demoProvider, disabledDemoModels } from '../demo/models.ts';
import type { Route } from '../http/routes.ts';
import { Admission } from '../limits/admission.ts';
import { Catalog, withProviderKeys } from '../route/catalog.ts';
import { policyWith } from '../upstream/guard/address-policy.ts';
import { createRoutes } from './routes.ts';
import type { SharedServices } from './runtime.ts';
import { createStages } from './stages.ts';

interface Configured {
  readonly models: readonly Model[];
  readonly routes: readonly Route[];
  readonly admission: Admission;
}

/** All that depends on the configuration. A reload makes it again; what goes on is in `Lasting`. */
export function configure(
  config: Config,
  services: SharedServices,
  isDraining: () => boolean,
): Configured {
  const { vault, demo, jobs, serverAddress, telemetry, counters, bodyMemoryBudget } = services;
  const catalog = makeCatalog(config, config.demo ? demo.url() : undefined);
  const withCredentials = (credentials: readonly Credential[]) =>
    withProviderKeys(catalog, credentials, config.billing.byokFeeBasisPoints);
  const catalogOf = (tenantId: string) => {
    const credentials = vault.credentialsOf(tenantId);
    return credentials instanceof Promise
      ? credentials.then(withCredentials)
      : withCredentials(credentials);
  };
  // However little memory there is, a tenant that is alone may send two bodies of the longest kind.
  bodyMemoryBudget.raise(4 * config.limits.bodyBytes);
  const admission = new Admission({ ...counters, defaults: config.limits });
  const addressPolicy = policyWith(config.privateAddresses, () => serverAddress.port);
  const deps = { ...services, config, catalog, catalogOf, admission, addressPolicy };
  const stages = createStages(deps);
  const routes = createRoutes({ ...deps, stages }, isDraining);
  telemetry.useCatalog(catalog);
  jobs.configure({ config, catalogOf, admission, stages, addressPolicy });
  return { models: catalog.callable(), routes, admission };
}

function makeCatalog(config: Config, demoUrl: string | undefined): Catalog {
  if (demoUrl === undefined) {
    const isUnused = (id: string) => config.models.every((model) => model.id !== id);
    const disabled = disabledDemoModels.filter(({ id }) => isUnused(id));
    return new Catalog([...config.models, ...disabled], config.providers);
  }
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
  return new Catalog(
    [...config.models, ...demoModels],
    new Map([...config.providers, [demoProvider, provider]]),
  );
}
