import type { Config, Model } from '../config/config.ts';
import type { Credential } from '../core/byok.ts';
import type { Route } from '../http/routes.ts';
import { Admission } from '../limits/admit.ts';
import { withOwnAccounts } from '../route/byok.ts';
import { makeCatalogue } from './catalogue.ts';
import type { Lasting } from './lasting.ts';
import { makeRoutes } from './routes.ts';
import { makeSteps } from './steps.ts';

export interface Furnished {
  readonly models: readonly Model[];
  readonly routes: readonly Route[];
  readonly admission: Admission;
}

/** All that depends on settings which may change while it runs. Keeps nothing for later. */
export function furnish(config: Config, lasting: Lasting, isDraining: () => boolean): Furnished {
  const { vault, demo, jobs, telemetry, counters, recollection } = lasting;
  const catalogue = makeCatalogue(config, config.demo ? demo.url() : undefined);
  const ownedBy = (credentials: readonly Credential[]) =>
    withOwnAccounts(catalogue, credentials, config.billing.byokFeeBasisPoints);
  const catalogueOf = (tenantId: string) => {
    const credentials = vault.credentialsOf(tenantId);
    return credentials instanceof Promise ? credentials.then(ownedBy) : ownedBy(credentials);
  };
  const settings = {
    config,
    catalogueOf,
    admission: new Admission({ ...counters, defaults: config.limits }),
    recollection: { ...recollection, cacheMode: config.cache.mode },
  };
  const found = { ...settings, catalogue, steps: makeSteps({ ...lasting, ...settings }) };
  const routes = makeRoutes({ ...lasting, ...found }, isDraining);
  telemetry.know(catalogue);
  jobs.furnish(found);
  return { models: catalogue.live(), routes, admission: settings.admission };
}
