import { Compile } from 'typebox/compile';
import { explain, type Problem } from '../core/explain.ts';
import { isObject } from '../core/json.ts';
import { Secret } from '../core/secret.ts';
import { readBootstrap, readSecretKey } from './bootstrap.ts';
import { builtinCatalogue } from './catalogue/index.ts';
import type { Config, Provider } from './config.ts';
import { isCleanBase, mergeModels, mergeProviders, uncleanBase } from './merge.ts';
import { readObjectStorage } from './object-storage.ts';
import { applyOverrides, type Flags, type Override, overridesOf } from './overrides.ts';
import { ConfigProblems } from './problems.ts';
import { type Environment, readConfigFile, substitute } from './read-file.ts';
import { type ConfigFile, configFileSchema } from './schema.ts';
import { readTracing } from './tracing.ts';
import { readWebSearch } from './web-search.ts';

const validator = Compile(configFileSchema);
const shape: object = configFileSchema;

/**
 * File, environment and command line as one frozen object. Refuses with every problem at once:
 * people mend five mistakes in one go, not in five starts.
 */
export function loadConfig(flags: Flags, environment: Environment): Config {
  const { source, data } = readConfigFile(
    flags.config ?? (environment.TOLLGATE_CONFIG || undefined),
  );
  const problems: Problem[] = [];
  const substituted = substitute(data, shape, environment, problems);
  const overrides = overridesOf(flags, environment);
  const merged = applyOverrides(substituted, overrides, shape);
  if (!validator.Check(merged)) {
    const unset = new Set(problems.map((problem) => problem.path));
    const misfits = explain(shape, merged).filter(({ path }) => !unset.has(path));
    problems.push(...misfits.map((problem) => nameOverride(problem, overrides)));
    if (!isObject(merged)) throw new ConfigProblems(source, problems);
  }
  // Broken fields are left out so that the rest can still be examined in the same run.
  const sound = validator.Check(merged) ? merged : withoutBroken(merged, problems);
  const config = assemble(sound, providerNames(merged), environment, source, problems);
  if (problems.length > 0) throw new ConfigProblems(source, problems);
  return deepFreeze(config);
}

/** The providers that the file means to have, sound or not. */
function providerNames(data: unknown): ReadonlySet<string> {
  const providers = isObject(data) ? data.providers : undefined;
  return new Set(isObject(providers) ? Object.keys(providers) : []);
}

function assemble(
  file: ConfigFile,
  meant: ReadonlySet<string>,
  environment: Environment,
  source: string,
  problems: Problem[],
): Config {
  const builtin = file.catalogue === 'none' ? { providers: [], models: [] } : builtinCatalogue;
  const providers = mergeProviders(builtin.providers, file.providers ?? {}, environment, problems);
  const models = mergeModels(builtin.models, file.models ?? [], providers, meant, problems);
  const publicUrl = file.server?.public_url;
  if (publicUrl !== undefined && !isCleanBase(publicUrl)) {
    problems.push({ path: 'server.public_url', message: uncleanBase });
  }
  const dataDir = file.data_dir ?? './data';
  const inDataDir = (text: string) => new Secret(text.replaceAll('{data_dir}', dataDir));
  return {
    server: {
      host: file.server?.host ?? '127.0.0.1',
      port: file.server?.port ?? 8080,
      publicUrl: publicUrl?.replace(/\/+$/, '') ?? null,
      drainSeconds: file.server?.drain_seconds ?? 600,
    },
    dataDir,
    database: inDataDir(file.database ?? 'sqlite:{data_dir}/tollgate.db'),
    redis: file.redis ? new Secret(file.redis) : null,
    objects: inDataDir(file.objects ?? 'file:{data_dir}/objects'),
    objectStorage: readObjectStorage(environment),
    demo: file.demo === true || (file.demo !== false && !hasSharedCapacity(providers)),
    creditsPerUsd: file.credits_per_usd ?? 1_000_000,
    limits: {
      requestsPerMinute: file.limits?.requests_per_minute ?? 600,
      tokensPerMinute: file.limits?.tokens_per_minute ?? null,
      concurrentRequests: file.limits?.concurrent_requests ?? 256,
      bodyBytes: file.limits?.body_bytes ?? 20 * 1024 * 1024,
    },
    cache: {
      mode: file.cache?.mode ?? 'auto',
      ttlSeconds: file.cache?.ttl_seconds ?? 300,
      maxBytes: file.cache?.max_bytes ?? 256 * 1024 * 1024,
    },
    billing: {
      byokFeeBasisPoints: file.billing?.byok_fee_basis_points ?? 500,
      durability: file.billing?.durability ?? 'journal',
    },
    logs: { keepDays: file.logs?.keep_days ?? null, requests: file.logs?.requests ?? true },
    tracing: readTracing(environment, problems),
    webSearch: readWebSearch(file, problems),
    providers,
    models,
    bootstrap: readBootstrap(environment, problems),
    secretKey: readSecretKey(environment, problems),
    source,
  };
}

function hasSharedCapacity(providers: ReadonlyMap<string, Provider>): boolean {
  return [...providers.values()].some(({ shared }) => shared);
}

function nameOverride(problem: Problem, overrides: readonly Override[]): Problem {
  const origin = overrides.findLast(({ path }) => path.join('.') === problem.path);
  return origin ? { ...problem, path: `${origin.from} (${problem.path})` } : problem;
}

/** Drops the top-level sections and the list items that have problems of their own. */
function withoutBroken(data: unknown, problems: readonly Problem[]): ConfigFile {
  const broken = problems.map(({ path }) => path.replace(/^\S+ \((.*)\)$/, '$1'));
  const names = (path: string) =>
    broken.some((at) => at === path || at.startsWith(`${path}.`) || at.startsWith(`${path}[`));
  const kept: Record<string, unknown> = {};
  for (const [section, value] of Object.entries(isObject(data) ? data : {})) {
    if (!names(section)) kept[section] = value;
    else if (section === 'providers' && isObject(value)) {
      kept[section] = Object.fromEntries(
        Object.entries(value).filter(([name]) => !names(`providers.${name}`)),
      );
    } else if (section === 'models' && Array.isArray(value)) {
      kept[section] = value.filter((_, i) => !names(`models[${i}]`));
    }
  }
  return validator.Check(kept) ? kept : {};
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Secret) return value;
  for (const inner of value instanceof Map ? value.values() : Object.values(value)) {
    deepFreeze(inner);
  }
  return Object.freeze(value);
}
