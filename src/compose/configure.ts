import type { Config, Model } from '../config/config.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import { withDemo, withDisabledDemo } from '../demo/models.ts';
import type { Route } from '../http/routes.ts';
import { Admission } from '../limits/admission.ts';
import { ReadRate } from '../limits/read-rate.ts';
import { Catalog } from '../route/catalog.ts';
import { createCatalogOf } from '../route/priced-catalogs.ts';
import { policyWith } from '../upstream/guard/address-policy.ts';
import { createRoutes } from './routes.ts';
import type { SharedServices } from './shared-services.ts';
import { createStages } from './stages.ts';

interface Configured {
  readonly models: readonly Model[];
  readonly routes: readonly Route[];
  readonly admission: Admission;
  readonly readRate: ReadRate;
}

/** Builds everything that depends on the configuration. A reload calls it again. */
export function configure(
  config: Config,
  services: SharedServices,
  isDraining: () => boolean,
): Configured {
  const { vault, demo, jobs, listenPort, telemetry, counters, bodyMemoryBudget } = services;
  const { models, providers } = config.demo
    ? withDemo(config, demo.url())
    : withDisabledDemo(config);
  for (const { apiKey } of services.providerKeys.configure(providers.values()))
    if (apiKey) knownCredentials.add(apiKey.reveal());
  const catalog = new Catalog(models, providers, config.ambiguousModelNames, config.aliases);
  const credentialsOf = vault.credentialsOf.bind(vault);
  const catalogOf = createCatalogOf({ config, models, providers, credentialsOf });
  // A tenant may use at most half of the budget. With room for four bodies, even a single tenant
  // can send two bodies of the maximum size, however little memory there is.
  const { bodyBytes, bodyMemoryBytes } = config.limits;
  bodyMemoryBudget.raise(Math.max(4 * bodyBytes, bodyMemoryBytes ?? 0));
  const admission = new Admission({ ...counters, defaults: config.limits });
  const { admin } = config.server;
  const ownPorts = () => [listenPort.port, ...(admin ? [admin.port] : [])];
  const addressPolicy = policyWith(config.privateAddresses, ownPorts);
  const deps = { ...services, config, catalog, catalogOf, admission, addressPolicy };
  const stages = createStages(deps);
  const routes = createRoutes({ ...deps, stages }, isDraining);
  telemetry.useCatalog(catalog);
  jobs.configure({ config, catalogOf, admission, stages, addressPolicy });
  const readRate = new ReadRate(config.limits.readsPerMinute);
  return { models: catalog.callable(), routes, admission, readRate };
}
