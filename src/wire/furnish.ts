import type { Config, Model } from '../config/config.ts';
import type { Credential } from '../core/byok.ts';
import type { Route } from '../http/routes.ts';
import { withOwnAccounts } from '../route/byok.ts';
import { makeCatalogue } from './catalogue.ts';
import type { Lasting } from './lasting.ts';
import { makeRoutes } from './routes.ts';
import { makeSteps } from './steps.ts';

export interface Furnished {
  readonly models: readonly Model[];
  readonly routes: readonly Route[];
}

/** All that depends on settings which may change while it runs. Keeps nothing for later. */
export function furnish(config: Config, lasting: Lasting, isDraining: () => boolean): Furnished {
  const { store, vault, authenticator, skills, books, health, counters, telemetry } = lasting;
  const { recollection, demo, watch } = lasting;
  const catalogue = makeCatalogue(config, config.demo ? demo.url() : undefined);
  const ownedBy = (credentials: readonly Credential[]) =>
    withOwnAccounts(catalogue, credentials, config.billing.byokFeeBasisPoints);
  const catalogueOf = (tenantId: string) => {
    const credentials = vault.credentialsOf(tenantId);
    return credentials instanceof Promise ? credentials.then(ownedBy) : ownedBy(credentials);
  };
  const recalling = { ...recollection, cacheMode: config.cache.mode };
  const steps = makeSteps(
    config,
    catalogueOf,
    books,
    health,
    counters,
    telemetry,
    recalling,
    watch,
  );
  const found = { config, catalogue, catalogueOf, steps };
  const routes = makeRoutes(
    { ...found, store, skills, jobs: lasting.jobs, vault, authenticator, books, health, telemetry },
    isDraining,
  );
  telemetry.know(catalogue);
  lasting.jobs.furnish(found);
  return { models: catalogue.live(), routes };
}
