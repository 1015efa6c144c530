import type { Config } from './config.ts';

/** The options that a running process can't change. */
const restartOptions: Readonly<Record<string, (config: Config) => unknown>> = {
  'server.host': ({ server }) => server.host,
  'server.port': ({ server }) => server.port,
  'server.admin_host': ({ server }) => server.admin?.host,
  'server.admin_port': ({ server }) => server.admin?.port,
  data_dir: ({ dataDir }) => dataDir,
  database: ({ database }) => database.reveal(),
  redis: ({ redis }) => redis?.reveal(),
  objects: ({ objects }) => objects.reveal(),
  credits_per_usd: ({ creditsPerUsd }) => creditsPerUsd,
  'cache.ttl_seconds': ({ cache }) => cache.ttlSeconds,
  'cache.max_bytes': ({ cache }) => cache.maxBytes,
  'billing.durability': ({ billing }) => billing.durability,
  'logs.keep_days': ({ logs }) => logs.keepDays,
  'audit.keep_days': ({ audit }) => audit.keepDays,
  'logs.requests': ({ logs }) => logs.requests,
};

export interface ReloadResult {
  /** The new configuration. */
  readonly config: Config;
  /** Changed options that take effect at the next startup. */
  readonly needRestart: readonly string[];
}

/** Merges a reloaded configuration into the running one. */
export function planReload(running: Config, requested: Config): ReloadResult {
  const needRestart = Object.entries(restartOptions)
    .filter(([, read]) => read(running) !== read(requested))
    .map(([name]) => name);
  const { host, port, admin } = running.server;
  return {
    needRestart,
    config: {
      ...requested,
      server: { ...requested.server, host, port, admin },
      dataDir: running.dataDir,
      database: running.database,
      redis: running.redis,
      objects: running.objects,
      s3Credentials: running.s3Credentials,
      creditsPerUsd: running.creditsPerUsd,
      cache: { ...running.cache, mode: requested.cache.mode },
      billing: { ...requested.billing, durability: running.billing.durability },
      logs: running.logs,
      audit: running.audit,
      tracing: running.tracing,
      bootstrap: running.bootstrap,
      secretKey: running.secretKey,
      previousSecretKey: running.previousSecretKey,
    },
  };
}
