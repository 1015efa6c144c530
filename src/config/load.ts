import { Compile } from 'typebox/schema';
import { explain, type Problem } from '../core/explain.ts';
import { fieldsOf, isObject } from '../core/json.ts';
import { Secret } from '../core/secret.ts';
import { readBootstrap, readSecretKey } from './bootstrap.ts';
import { builtinCatalogue } from './catalogue/index.ts';
import type { Config } from './config.ts';
import { isCleanBase, mergeModels, mergeProviders, uncleanBase } from './merge.ts';
import { modelProblems } from './model-problems.ts';
import { readObjectStorage } from './object-storage.ts';
import { applyOverrides, type Flags, type Override, overridesOf } from './overrides.ts';
import { readPrivateAddresses } from './private-addresses.ts';
import { ConfigProblems, type OutsideProblem } from './problems.ts';
import {
  type ConfigText,
  type Environment,
  noFile,
  readConfigFile,
  substitute,
} from './read-file.ts';
import { type ConfigFile, configFileSchema } from './schema.ts';
import { readTracing } from './tracing.ts';
import { readWebSearch } from './web-search.ts';

const validator = Compile(configFileSchema);
const shape: object = configFileSchema;

/**
 * File, environment and command line as one frozen object. Reports all problems at once, so that
 * five mistakes do not take five starts. A command that uses only some sections (`used`) needs only
 * their variables: a shell in which the books are checked has no provider's key.
 */
export function loadConfig(
  flags: Flags,
  environment: Environment,
  used: readonly (keyof ConfigFile)[] = everySection,
  { source, data }: ConfigText = readConfigText(flags, environment),
): Config {
  const unset: Problem[] = [];
  const substituted = substitute(data, shape, environment, unset);
  const overrides = overridesOf(flags, environment);
  const isOverridden = (path: string) => overrides.some((one) => one.path.join('.') === path);
  const problems = unset.filter(({ path }) => !isOverridden(path));
  const merged = applyOverrides(substituted, overrides, shape);
  if (!validator.Check(merged)) {
    const told = new Set(problems.map((problem) => problem.path));
    const misfits = explain(shape, merged).filter(({ path }) => !told.has(path));
    problems.push(...misfits.map((problem) => nameOverride(problem, overrides)));
    if (!isObject(merged)) throw new ConfigProblems(source, problems);
  }
  // A mistake in the file is reported even if an override hides it: it would count once the
  // override is gone.
  problems.push(...unset.filter((one) => isOverridden(one.path) && !('variable' in one)));
  const isUnset = (path: string) => unset.some((one) => one.path === path);
  const isCovered = (path: string) => overrides.some((one) => liesIn(one.path.join('.'), path));
  const beneath = validator.Check(substituted) ? [] : explain(shape, substituted);
  problems.push(...beneath.filter(({ path }) => isCovered(path) && !isUnset(path)));
  // Broken fields are left out so that the rest can still be checked in the same run. The path of a
  // field that came from outside the file is written as `NAME (path)`.
  const broken = problems.map(({ path }) => path.replace(/^\S+ \((.*)\)$/, '$1'));
  const sound = validator.Check(merged) ? merged : withoutBroken(merged, new Set(broken));
  const more: Problem[] = [];
  const config = assemble(sound, environment, source, more);
  const isBroken = (path: string) => broken.some((at) => liesIn(at, path));
  const models = isObject(merged) ? merged.models : [];
  more.push(...modelProblems(models, providersOf(config, merged), keylessIn(config), isBroken));
  // A broken field was left out above, so it now looks missing: that is no second problem.
  problems.push(...more.filter(({ path }) => !broken.includes(path)));
  const isUsed = (path: string) => used.some((section) => liesIn(path, section));
  const refused = problems.filter((problem) => !('variable' in problem) || isUsed(problem.path));
  if (refused.length > 0) throw new ConfigProblems(source, refused);
  return deepFreeze(config);
}

/**
 * The content of the file now; a worker can load it later although the file has changed. `before`
 * is where the file was the last time: if it is gone, that is an error, not "no file".
 */
export function readConfigText(
  flags: Flags,
  environment: Environment,
  before: string = noFile,
): ConfigText {
  const found = before === noFile ? undefined : before;
  return readConfigFile(flags.config ?? (environment.TOLLGATE_CONFIG || found));
}

export const everySection = Object.keys(configFileSchema.properties) as (keyof ConfigFile)[];

/** Shipped providers that cannot be called because their key is not set, each with its variable. */
function keylessIn({ providers }: Config): ReadonlyMap<string, string> {
  const shipped = builtinCatalogue.providers.filter(
    ({ name }) => providers.get(name)?.shared === false,
  );
  return new Map(shipped.map(({ name, api_key_env }) => [name, api_key_env]));
}

/**
 * Providers that can be called, and those that the file names even if broken: a broken provider is
 * reported once, not again for each of its models.
 */
function providersOf({ providers }: Config, data: unknown): ReadonlySet<string> {
  const meant = isObject(data) && isObject(data.providers) ? Object.keys(data.providers) : [];
  const callable = [...providers.values()].filter(({ shared }) => shared);
  return new Set([...callable.map(({ name }) => name), ...meant]);
}

function assemble(
  file: ConfigFile,
  environment: Environment,
  source: string,
  problems: Problem[],
): Config {
  const builtin = file.catalogue === 'none' ? { providers: [], models: [] } : builtinCatalogue;
  const providers = mergeProviders(builtin.providers, file.providers ?? {}, environment, problems);
  const hasCapacity = [...providers.values()].some(({ shared }) => shared);
  const models = mergeModels(builtin.models, file.models ?? [], providers);
  const publicUrl = file.server?.public_url;
  if (publicUrl !== undefined && !isCleanBase(publicUrl)) {
    problems.push({ path: 'server.public_url', message: uncleanBase });
  } else if (/[^/]/.test(URL.parse(publicUrl ?? '')?.pathname ?? '')) {
    // The dashboard requests its files and the API at the root of the host.
    const message = 'must have no path: Tollgate is served at the root of a host';
    problems.push({ path: 'server.public_url', message });
  }
  const fromEnvironment = environmentIn(environment, problems);
  const dataDir = file.data_dir ?? './data';
  const inDataDir = (text: string) => new Secret(text.replaceAll('{data_dir}', dataDir));
  return {
    server: {
      host: file.server?.host ?? '127.0.0.1',
      port: file.server?.port ?? 8080,
      publicUrl: publicUrl?.replace(/\/+$/, '') ?? null,
      drainSeconds: file.server?.drain_seconds ?? 600,
      databaseWaitSeconds: file.server?.database_wait_seconds ?? 12,
    },
    dataDir,
    database: inDataDir(file.database ?? 'sqlite:{data_dir}/tollgate.db'),
    redis: file.redis ? new Secret(file.redis) : null,
    objects: inDataDir(file.objects ?? 'file:{data_dir}/objects'),
    objectStorage: readObjectStorage(environment),
    privateAddresses: readPrivateAddresses(file, problems),
    demo: file.demo === true || (file.demo !== false && !hasCapacity),
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
    webSearch: readWebSearch(file, problems),
    providers,
    models,
    ...fromEnvironment,
    source,
  };
}

/** Settings that come from the environment only, never from the file. */
function environmentIn(environment: Environment, problems: Problem[]) {
  const found: Problem[] = [];
  const settings = {
    tracing: readTracing(environment, found),
    bootstrap: readBootstrap(environment, found),
    secretKey: readSecretKey('TOLLGATE_SECRET_KEY', environment, found),
    formerSecretKey: readSecretKey('TOLLGATE_FORMER_SECRET_KEY', environment, found),
  };
  const outside = (problem: Problem): OutsideProblem => ({ ...problem, place: 'environment' });
  problems.push(...found.map(outside));
  return settings;
}

function nameOverride(problem: Problem, overrides: readonly Override[]): Problem | OutsideProblem {
  const origin = overrides.findLast(({ path }) => path.join('.') === problem.path);
  if (!origin) return problem;
  const path = `${origin.from} (${problem.path})`;
  return { ...problem, path, place: origin.from.startsWith('--') ? 'command line' : 'environment' };
}

function liesIn(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}.`) || path.startsWith(`${place}[`);
}

/** Drops broken fields, and the sections, providers and models that are useless without them. */
function withoutBroken(data: unknown, broken: ReadonlySet<string>): ConfigFile {
  const kept: Record<string, unknown> = {};
  for (const [section, value] of Object.entries(fieldsOf(data))) {
    const left = pruned(value, section, broken);
    if (section === 'providers' && isObject(left)) {
      const whole = Object.entries(left).filter(([name, one]) =>
        fits({ providers: { [name]: one } }),
      );
      kept[section] = Object.fromEntries(whole);
    } else if (section === 'models' && Array.isArray(left)) {
      kept[section] = left.filter((one) => fits({ models: [one] }));
    } else if (fits({ [section]: left })) {
      kept[section] = left;
    }
  }
  return validator.Check(kept) ? kept : {};
}

const fits = (file: object) => validator.Check(file);

function pruned(value: unknown, path: string, broken: ReadonlySet<string>): unknown {
  if (broken.has(path)) return undefined;
  if (Array.isArray(value)) {
    const items = value.map((item: unknown, i) => pruned(item, `${path}[${i}]`, broken));
    return items.filter((item) => item !== undefined);
  }
  if (!isObject(value)) return value;
  const fields = Object.entries(value).map(([name, field]) => [
    name,
    pruned(field, `${path}.${name}`, broken),
  ]);
  return Object.fromEntries(fields.filter(([, field]) => field !== undefined));
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Secret) return value;
  for (const inner of value instanceof Map ? value.values() : Object.values(value)) {
    deepFreeze(inner);
  }
  return Object.freeze(value);
}
