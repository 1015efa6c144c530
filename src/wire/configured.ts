import type { Config, Model } from '../config/config.ts';
import type { Credential } from '../core/byok.ts';
import type { Route } from '../http/routes.ts';
import { Admission } from '../limits/admit.ts';
import { withOwnAccounts } from '../route/byok.ts';
import { makeCatalogue } from './catalogue.ts';
import type { Lasting } from './lasting.ts';
import { makeRoutes } from './routes.ts';
import { makeSteps } from './steps.ts';

interface Configured {
  readonly models: readonly Model[];
  readonly routes: readonly Route[];
  readonly admission: Admission;
}

/** Makes all that depends on the configuration; a reload makes it again. Remembers nothing. */
export function configure(config: Config, lasting: Lasting, isDraining: () => boolean): Configured {
  const { vault, demo, jobs, telemetry, counters } = lasting;
  const catalogue = makeCatalogue(config, config.demo ? demo.url() : undefined);
  const ownedBy = (credentials: readonly Credential[]) =>
    withOwnAccounts(catalogue, credentials, config.billing.byokFeeBasisPoints);
  const catalogueOf = (tenantId: string) => {
    const credentials = vault.credentialsOf(tenantId);
    return credentials instanceof Promise ? credentials.then(ownedBy) : ownedBy(credentials);
  };
  const admission = new Admission({ ...counters, defaults: config.limits });
  const parts = { ...lasting, config, catalogue, catalogueOf, admission };
  const steps = makeSteps(parts);
  const routes = makeRoutes({ ...parts, steps }, isDraining);
  telemetry.useCatalogue(catalogue);
  jobs.configure({ config, catalogueOf, admission, steps });
  return { models: catalogue.live(), routes, admission };
}
