import { Authenticator } from './auth/authenticate.ts';
import { ChangeWatch } from './auth/change-watch.ts';
import { type FreshSecrets, firstStart } from './auth/first-start.ts';
import { Vault } from './auth/vault.ts';
import { Books } from './books.ts';
import { repeatAll } from './chores.ts';
import type { Config, Model } from './config/config.ts';
import { randomText } from './core/ids.ts';
import { startDemoUpstream } from './demo/demo-upstream.ts';
import { HttpServer } from './http/server.ts';
import { withOwnAccounts } from './route/byok.ts';
import { openStore, type Store } from './store/open.ts';
import { LogRetention } from './store/retention.ts';
import { secretKeyOf } from './store/secret-key.ts';
import { type Log, reason } from './telemetry/log.ts';
import { makeCatalogue } from './wire/catalogue.ts';
import { makeRoutes } from './wire/routes.ts';
import { makeSteps } from './wire/steps.ts';

/** A built Tollgate, not yet listening. */
export interface Tollgate {
  readonly firstSecrets: FreshSecrets | undefined;
  readonly models: readonly Model[];
  readonly engine: string;
  /** Starts serving; answers the port in use. */
  listen(): number;
  /** Lets running requests finish, writes everything down and closes. */
  drain(seconds: number): Promise<void>;
}

/** Builds every part by hand. With the files of wire/ the only place that may import everything. */
export async function build(config: Config, log: Log): Promise<Tollgate> {
  const store = await openStore(config.database.reveal());
  const vault = await Vault.open({
    store: store.credentials,
    secret: secretKeyOf(config),
    isStart: true,
    onUnreadable: (tenant, provider) => log.error('credential_unreadable', { tenant, provider }),
  });
  const firstSecrets = await firstStart(config.bootstrap, {
    directory: store.directory,
    grantOnce: (tenantId, credits) => grantOnce(store, tenantId, credits),
    now: Date.now(),
  });
  const demo = config.demo ? startDemoUpstream() : undefined;
  const catalogue = makeCatalogue(config, demo?.url);
  const books = await Books.open({
    store: store.ledger,
    dataDir: config.dataDir,
    durability: config.billing.durability,
    processId: randomText(16),
    log,
  });
  const authenticator = new Authenticator(store.directory);
  const changes = new ChangeWatch(store.directory, () => {
    authenticator.forget();
    vault.forget();
  });
  const catalogueOf = async (tenantId: string) => {
    const credentials = await vault.credentialsOf(tenantId);
    return withOwnAccounts(catalogue, credentials, config.billing.byokFeeBasisPoints);
  };
  const steps = makeSteps(config, catalogueOf, books);
  const server: HttpServer = new HttpServer({
    routes: makeRoutes({ config, store, vault, catalogueOf, books, steps }, () => server.draining),
    authenticator,
    log,
  });
  const retention = makeRetention(config, store, log);
  const chores = repeatAll([
    ...authenticator.chores(),
    ...changes.chores(),
    ...books.chores(),
    ...(retention?.chores() ?? []),
  ]);
  return {
    firstSecrets,
    models: catalogue.live(),
    engine: store.database.engine,
    listen() {
      void retention?.run();
      return server.listen(config.server.host, config.server.port);
    },
    async drain(seconds) {
      await server.drain(seconds);
      chores.stop();
      await retention?.stop();
      await books.close();
      await authenticator.markUsed();
      await demo?.stop();
      await store.database.close();
    },
  };
}

function makeRetention(config: Config, store: Store, log: Log): LogRetention | undefined {
  const { keepDays } = config.logs;
  if (keepDays === null) return undefined;
  return new LogRetention({
    database: store.database,
    keepDays,
    now: Date.now,
    onDone: (rows) => log.info('logs_removed', { rows, older_than_days: keepDays }),
    onFailure: (thrown) => log.error('log_retention_failed', { reason: reason(thrown) }),
  });
}

async function grantOnce(store: Store, tenantId: string, credits: number): Promise<void> {
  await store.creditBook.change({
    tenantId,
    amount: credits,
    note: 'First grant',
    idempotencyKey: 'first-start',
    now: Date.now(),
  });
}
