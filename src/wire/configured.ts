import type { Config, Model, Provider } from '../config/config.ts';
import type { Credential } from '../core/byok.ts';
import { demoModels, demoModelsOff, demoProvider } from '../demo/demo-models.ts';
import type { Route } from '../http/routes.ts';
import { Admission } from '../limits/admit.ts';
import { withOwnAccounts } from '../route/byok.ts';
import { Catalogue } from '../route/catalogue.ts';
import { policyWith } from '../upstream/guard/address-guard.ts';
import type { Lasting } from './lasting.ts';
import { makeRoutes } from './routes.ts';
import { makeSteps } from './steps.ts';

interface Configured {
  readonly models: readonly Model[];
  readonly routes: readonly Route[];
  readonly admission: Admission;
}

/** All that depends on the configuration. A reload makes it again; what goes on is in `Lasting`. */
export function configure(config: Config, lasting: Lasting, isDraining: () => boolean): Configured {
  const { vault, demo, jobs, door, telemetry, counters, bodyRoom } = lasting;
  const catalogue = makeCatalogue(config, config.demo ? demo.url() : undefined);
  const ownedBy = (credentials: readonly Credential[]) =>
    withOwnAccounts(catalogue, credentials, config.billing.byokFeeBasisPoints);
  const catalogueOf = (tenantId: string) => {
    const credentials = vault.credentialsOf(tenantId);
    return credentials instanceof Promise ? credentials.then(ownedBy) : ownedBy(credentials);
  };
  // However little memory there is, a tenant that is alone may send two bodies of the longest kind.
  bodyRoom.widen(4 * config.limits.bodyBytes);
  const admission = new Admission({ ...counters, defaults: config.limits });
  const addressPolicy = policyWith(config.privateAddresses, () => door.port);
  const parts = { ...lasting, config, catalogue, catalogueOf, admission, addressPolicy };
  const steps = makeSteps(parts);
  const routes = makeRoutes({ ...parts, steps }, isDraining);
  telemetry.useCatalogue(catalogue);
  jobs.configure({ config, catalogueOf, admission, steps, addressPolicy });
  return { models: catalogue.live(), routes, admission };
}

function makeCatalogue(config: Config, demoUrl: string | undefined): Catalogue {
  if (demoUrl === undefined) {
    const isFree = (id: string) => config.models.every((model) => model.id !== id);
    const off = demoModelsOff.filter(({ id }) => isFree(id));
    return new Catalogue([...config.models, ...off], config.providers);
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
  return new Catalogue(
    [...config.models, ...demoModels],
    new Map([...config.providers, [demoProvider, provider]]),
  );
}
