import type { Vault } from '../auth/vault.ts';
import type { Books } from '../books.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/version.ts';
import { supportedParameters } from '../dialects/parameters.ts';
import type { Steps } from '../gateway.ts';
import { adminRoutes } from '../http/admin.ts';
import { byokRoutes } from '../http/byok.ts';
import { chatRoutes } from '../http/chat.ts';
import { customerRoutes } from '../http/customer.ts';
import { generationRoutes } from '../http/generation.ts';
import { healthRoutes } from '../http/health.ts';
import { keyRoutes } from '../http/keys.ts';
import { modelRoutes } from '../http/models.ts';
import type { Route } from '../http/routes.ts';
import type { CreditBook } from '../ledger/credits.ts';
import type { CallableModels } from '../route/catalogue.ts';
import type { Store } from '../store/open.ts';
import { readOverview } from '../store/overview.ts';
import { refusalOfAddress } from '../upstream/user-address.ts';

export interface RouteParts {
  readonly config: Config;
  readonly store: Store;
  readonly vault: Vault;
  catalogueOf(tenantId: string): Promise<CallableModels>;
  readonly books: Books;
  steps(headers: Record<string, string>): Steps;
}

export function makeRoutes(parts: RouteParts, isDraining: () => boolean): Route[] {
  const { config, store, vault, catalogueOf, books, steps } = parts;
  const startedAt = Date.now();
  const desk = {
    directory: store.directory,
    credits: settledCredits(store, books),
    spending: {
      async spent(tenantId: string, keyIds: readonly string[], now: number) {
        await books.flush();
        return store.keySpending.spent(tenantId, keyIds, now);
      },
    },
    now: Date.now,
  };
  return [
    ...healthRoutes({
      version,
      ping: () => store.database.ping(),
      isDraining,
    }),
    ...chatRoutes({ bodyBytesMax: config.limits.bodyBytes, steps }),
    ...modelRoutes({ catalogueOf, supportedParameters }),
    ...generationRoutes({
      async find(tenantId, requestId) {
        await books.flush();
        return store.requestLog.find(tenantId, requestId);
      },
    }),
    ...customerRoutes({
      logs: store.logs,
      analytics: store.analytics,
      wallets: {
        totals: async (tenantId) =>
          books.withoutSpare(tenantId, await store.analytics.totals(tenantId)),
      },
      statements: store.statements,
      spending: store.keySpending,
      creditsPerUsd: config.creditsPerUsd,
      limits: config.limits,
      flush: () => books.flush(),
      now: Date.now,
    }),
    ...keyRoutes(desk),
    ...byokRoutes({
      ...desk,
      credentials: store.credentials,
      providers: config.providers,
      vault: () => vault,
      refusalOf: refusalOfAddress,
      changed: () => vault.forget(),
    }),
    ...adminRoutes({
      ...desk,
      overview: async () => ({
        ...(await readOverview(store.database)),
        version,
        uptimeSeconds: Math.round((Date.now() - startedAt) / 1000),
        database: store.database.engine,
      }),
    }),
  ];
}

/** Whoever looks at credits sees every request that has ended, and only running ones as held. */
function settledCredits({ creditBook }: Store, books: Books): CreditBook {
  return {
    async change(change) {
      await books.flush();
      return creditBook.change(change);
    },
    async balance(tenantId) {
      await books.flush();
      const wallet = await creditBook.balance(tenantId);
      return wallet && books.withoutSpare(tenantId, wallet);
    },
    async entries(tenantId, page) {
      await books.flush();
      return creditBook.entries(tenantId, page);
    },
  };
}
