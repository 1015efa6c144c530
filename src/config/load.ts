import { Compile } from 'typebox/schema';
import { fieldsOf, isObject } from '../core/json.ts';
import { addressRange, parsePrivateTarget } from '../core/network-address.ts';
import { explain, type Schema } from '../core/schema.ts';
import { Secret } from '../core/secret.ts';
import { readAliases } from './aliases.ts';
import { builtinCatalog } from './catalog/index.ts';
import type { Config, ListenAddress, StoredDocument } from './config.ts';
import { readBootstrap, readS3Credentials, readSecretKey, readTracing } from './environment.ts';
import { mergeModels, mergeProviders } from './merge.ts';
import { modelProblems } from './model-problems.ts';
import { problemsOfPrices, withPrices } from './prices.ts';
import { type ConfigProblem, ConfigProblems } from './problems.ts';
import {
  type ConfigText,
  convert,
  type Environment,
  noFile,
  readConfigFile,
  substitute,
} from './read-file.ts';
import { type ConfigFile, configFileSchema } from './schema.ts';
import { withSecretFiles } from './secret-files.ts';
import { withServedModels } from './served-models.ts';
import { isWithin, objectsOfFile, undecryptableObjects, withStoredObjects } from './stored.ts';
import { invalidBaseUrl, isValidBaseUrl } from './validation.ts';
import { readWebSearch } from './web-search.ts';

const validator = Compile(configFileSchema);
const shape: object = configFileSchema;

/**
 * Merges file, environment, and command line into a frozen configuration. Throws all problems at
 * once. `used` lists the sections that a command uses. Only their variables must be set: a shell
 * that verifies the ledger may have no provider keys. `stored` are objects from the store.
 */
export function loadConfig(
  flags: Flags,
  variables: Environment,
  used: readonly (keyof ConfigFile)[] = everySection,
  text: ConfigText = readConfigText(flags, variables),
  stored: readonly StoredDocument[] = [],
): Config {
  const { source, data } = text;
  const unset: ConfigProblem[] = [];
  const fileProblems: ConfigProblem[] = [];
  const environment = withSecretFiles(variables, data, fileProblems);
  const substituted = substitute(data, shape, environment, unset);
  const overrides = overridesOf(flags, environment);
  const isOverridden = (path: string) =>
    overrides.some((override) => override.path.join('.') === path);
  const problems = [...fileProblems, ...unset.filter(({ path }) => !isOverridden(path))];
  const fromFile = applyOverrides(substituted, overrides, shape);
  const withStore = withStoredObjects(fieldsOf(fromFile), stored);
  const merged = isObject(fromFile) ? withStore.data : fromFile;
  if (!validator.Check(merged)) {
    const reportedPaths = new Set(problems.map((problem) => problem.path));
    const schemaProblems = explain(shape, merged).filter(({ path }) => !reportedPaths.has(path));
    problems.push(...schemaProblems.map((problem) => nameOverride(problem, overrides)));
    if (!isObject(merged)) throw new ConfigProblems(source, problems);
  }
  // Report mistakes in the file even if an override hides them now.
  problems.push(
    ...unset.filter(({ path, variable }) => isOverridden(path) && variable === undefined),
  );
  const isUnset = (path: string) => unset.some((problem) => problem.path === path);
  const isHidden = (path: string) =>
    overrides.some((override) => isWithin(override.path.join('.'), path));
  const hiddenProblems = validator.Check(substituted) ? [] : explain(shape, substituted);
  problems.push(...hiddenProblems.filter(({ path }) => isHidden(path) && !isUnset(path)));
  // Leave out invalid fields, so that the rest is checked in the same run. The path of a field that
  // is set outside the file has the form `NAME (path)`.
  const broken = problems.map(({ path }) => path.replace(/^\S+ \((.*)\)$/, '$1'));
  const checked = validator.Check(merged) ? merged : withoutBroken(merged, new Set(broken));
  const moreProblems: ConfigProblem[] = [];
  const config: Config = {
    ...assemble(checked, environment, source, moreProblems),
    fileObjects: objectsOfFile(fieldsOf(fromFile)),
    withStored: (objects, checks = 'used') =>
      loadConfig(flags, variables, checks === 'all' ? everySection : used, text, objects),
  };
  const isBroken = (path: string) => broken.some((at) => isWithin(at, path));
  const models = isObject(merged) ? merged.models : [];
  moreProblems.push(
    ...modelProblems(models, providersOf(config, merged), keylessIn(config), isBroken),
    ...problemsOfPrices(isObject(merged) ? merged.prices : [], config.models, isBroken),
  );
  // An invalid field was dropped above, so it looks missing now. Don't report it twice.
  problems.push(...moreProblems.filter(({ path }) => !broken.includes(path)));
  const isUsed = (path: string) => used.some((section) => isWithin(path, section));
  const reported = problems.filter(({ variable, path }) => variable === undefined || isUsed(path));
  const all = [...reported.map(withStore.attribute), ...undecryptableObjects(stored)];
  if (all.length > 0) throw new ConfigProblems(source, all);
  return deepFreeze(config);
}

/**
 * Reads the file's content, which a worker can load later even if the file has changed. `before` is
 * the path read last time: if that file is gone, this throws instead of using defaults.
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

/** Returns the built-in providers without a key, each with the variable for its key. */
function keylessIn({ providers }: Pick<Config, 'providers'>): ReadonlyMap<string, string> {
  const builtIn = builtinCatalog.providers.filter(
    ({ name }) => providers.get(name)?.shared === false,
  );
  return new Map(builtIn.map(({ name, api_key_env }) => [name, api_key_env]));
}

/**
 * Returns the providers that can be called and those that the file names, even if invalid: an
 * invalid provider is reported once, not again for each of its models.
 */
function providersOf({ providers }: Pick<Config, 'providers'>, data: unknown): ReadonlySet<string> {
  const namedInFile = isObject(data) && isObject(data.providers) ? Object.keys(data.providers) : [];
  const callable = [...providers.values()].filter(({ shared }) => shared);
  return new Set([...callable.map(({ name }) => name), ...namedInFile]);
}

function assemble(
  file: ConfigFile,
  environment: Environment,
  source: string,
  problems: ConfigProblem[],
): Omit<Config, 'fileObjects' | 'withStored'> {
  const builtin = file.catalogue === 'none' ? { providers: [], models: [] } : builtinCatalog;
  const providers = mergeProviders(builtin.providers, file.providers ?? {}, environment, problems);
  const hasCapacity = [...providers.values()].some(({ shared }) => shared);
  const stickiness = file.stickiness ?? 'session';
  const catalog = withServedModels(builtin.models, file.providers ?? {}, problems);
  const models = mergeModels(catalog, file.models ?? [], providers, stickiness);
  const fromEnvironment = environmentIn(environment, problems);
  const dataDir = file.data_dir ?? './data';
  const inDataDir = (text: string) => new Secret(text.replaceAll('{data_dir}', dataDir));
  return {
    server: {
      host: file.server?.host ?? '127.0.0.1',
      port: file.server?.port ?? 8080,
      admin: readAdminAddress(file, problems),
      publicUrl: readPublicUrl(file, problems),
      drainSeconds: file.server?.drain_seconds ?? 600,
      databaseWaitSeconds: file.server?.database_wait_seconds ?? 12,
      trustedProxies: readTrustedProxies(file, problems),
    },
    dataDir,
    database: inDataDir(file.database ?? 'sqlite:{data_dir}/tollgate.db'),
    redis: file.redis ? new Secret(file.redis) : null,
    objects: inDataDir(file.objects ?? 'file:{data_dir}/objects'),
    s3Credentials: readS3Credentials(file.objects ?? '', environment, problems),
    privateAddresses: readPrivateAddresses(file, problems),
    demo: file.demo === true || (file.demo !== false && !hasCapacity),
    ambiguousModelNames: file.ambiguous_model_names ?? 'first',
    chatErrorCodes: file.chat_error_codes ?? 'status',
    stickiness,
    creditsPerUsd: file.credits_per_usd ?? 1_000_000,
    limits: {
      requestsPerMinute: file.limits?.requests_per_minute ?? 600,
      tokensPerMinute: file.limits?.tokens_per_minute ?? null,
      concurrentRequests: file.limits?.concurrent_requests ?? 256,
      readsPerMinute: file.limits?.reads_per_minute ?? 6_000,
      bodyBytes: file.limits?.body_bytes ?? 20 * 1024 * 1024,
      bodyMemoryBytes: file.limits?.body_memory_bytes ?? null,
    },
    cache: {
      mode: file.cache?.mode ?? 'auto',
      ttlSeconds: file.cache?.ttl_seconds ?? 300,
      maxBytes: file.cache?.max_bytes ?? 256 * 1024 * 1024,
    },
    billing: {
      byokFeeBasisPoints: file.billing?.byok_fee_basis_points ?? 500,
      defaultPlan: file.billing?.default_plan ?? null,
      durability: file.billing?.durability ?? 'journal',
      abandoned: file.billing?.abandoned ?? 'input',
    },
    audit: { keepDays: file.audit?.keep_days ?? null },
    logs: { keepDays: file.logs?.keep_days ?? null, requests: file.logs?.requests ?? true },
    webSearch: readWebSearch(file, problems),
    providers,
    ...withPrices(file, models, problems),
    aliases: readAliases(file.aliases ?? {}, new Set(models.map(({ id }) => id)), problems),
    ...fromEnvironment,
    source,
  };
}

function readPublicUrl(file: ConfigFile, problems: ConfigProblem[]): string | null {
  const publicUrl = file.server?.public_url;
  if (publicUrl !== undefined && !isValidBaseUrl(publicUrl)) {
    problems.push({ path: 'server.public_url', message: invalidBaseUrl });
  } else if (/[^/]/.test(URL.parse(publicUrl ?? '')?.pathname ?? '')) {
    // The dashboard requests its files and the API at the root of the host.
    const message = 'must have no path: Tollgate is served at the root of a host';
    problems.push({ path: 'server.public_url', message });
  }
  return publicUrl?.replace(/\/+$/, '') ?? null;
}

const privateAddressRule =
  'Use a full host name without * or a port, or an IP address or range inside 10.0.0.0/8, ' +
  '172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, 127.0.0.0/8, fc00::/7, or ::1. A metadata ' +
  'service is never allowed.';

function readAdminAddress(file: ConfigFile, problems: ConfigProblem[]): ListenAddress | null {
  const { admin_host: host = '127.0.0.1', admin_port: port, port: publicPort } = file.server ?? {};
  if (!port) return null;
  if (port === (publicPort ?? 8080)) {
    const message = 'must differ from server.port, because each listener needs its own port';
    problems.push({ path: 'server.admin_port', message });
  }
  return { host, port };
}

function readTrustedProxies(file: ConfigFile, problems: ConfigProblem[]): readonly string[] {
  const entries = file.server?.trusted_proxies ?? [];
  for (const [index, entry] of entries.entries()) {
    if (addressRange(entry) !== null) continue;
    problems.push({
      path: `server.trusted_proxies[${index}]`,
      message: `must be an address or a range such as "10.0.0.0/8", not "${entry}"`,
    });
  }
  return entries;
}

/** Reads `private_addresses`. Entries must be private host names, addresses, or ranges. */
function readPrivateAddresses(file: ConfigFile, problems: ConfigProblem[]): readonly string[] {
  const entries = file.private_addresses ?? [];
  return entries.filter((entry, index) => {
    if (parsePrivateTarget(entry)) return true;
    problems.push({
      path: `private_addresses[${index}]`,
      message: `must not be "${entry}". ${privateAddressRule}`,
    });
    return false;
  });
}

/** Reads settings that come only from the environment. */
function environmentIn(environment: Environment, problems: ConfigProblem[]) {
  const found: ConfigProblem[] = [];
  const settings = {
    tracing: readTracing(environment, found),
    bootstrap: readBootstrap(environment, found),
    secretKey: readSecretKey('TOLLGATE_SECRET_KEY', environment, found),
    previousSecretKey: readSecretKey('TOLLGATE_PREVIOUS_SECRET_KEY', environment, found),
  };
  problems.push(...found.map((problem) => ({ ...problem, origin: 'environment' as const })));
  return settings;
}

/** Adds the name of the option or variable that set the invalid value. */
function nameOverride(problem: ConfigProblem, overrides: readonly Override[]): ConfigProblem {
  const origin = overrides.findLast(({ path }) => path.join('.') === problem.path);
  if (!origin) return problem;
  const path = `${origin.from} (${problem.path})`;
  return {
    ...problem,
    path,
    origin: origin.from.startsWith('--') ? 'command line' : 'environment',
  };
}

/** Drops invalid fields, and sections, providers, and models that are incomplete without them. */
function withoutBroken(data: unknown, broken: ReadonlySet<string>): ConfigFile {
  const valid: Record<string, unknown> = {};
  for (const [section, value] of Object.entries(fieldsOf(data))) {
    const rest = pruned(value, section, broken);
    if (section === 'providers' && isObject(rest)) {
      const validProviders = Object.entries(rest).filter(([name, provider]) =>
        isValid({ providers: { [name]: provider } }),
      );
      valid[section] = Object.fromEntries(validProviders);
    } else if (section === 'models' && Array.isArray(rest)) {
      valid[section] = rest.filter((model) => isValid({ models: [model] }));
    } else if (isValid({ [section]: rest })) {
      valid[section] = rest;
    }
  }
  return validator.Check(valid) ? valid : {};
}

const isValid = (file: object) => validator.Check(file);

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

/** Command-line settings. They override the environment, which overrides the file. */
export interface Flags {
  readonly config?: string;
  readonly host?: string;
  readonly port?: string;
  readonly dataDir?: string;
}

/** A setting from outside the file, with the name of its option or variable for error messages. */
interface Override {
  readonly path: readonly [string] | readonly [string, string];
  readonly from: string;
  readonly value: string;
}

function overridesOf(flags: Flags, environment: Environment): Override[] {
  const candidates: [Override['path'], string, string | undefined][] = [
    [['server', 'host'], 'HOST', environment.HOST],
    [['server', 'port'], 'PORT', environment.PORT],
    [['server', 'admin_host'], 'ADMIN_HOST', environment.ADMIN_HOST],
    [['server', 'admin_port'], 'ADMIN_PORT', environment.ADMIN_PORT],
    [['data_dir'], 'TOLLGATE_DATA_DIR', environment.TOLLGATE_DATA_DIR],
    [['database'], 'DATABASE_URL', environment.DATABASE_URL],
    [['redis'], 'REDIS_URL', environment.REDIS_URL],
    [['objects'], 'OBJECTS_URL', environment.OBJECTS_URL],
    [['server', 'host'], '--host', flags.host],
    [['server', 'port'], '--port', flags.port],
    [['data_dir'], '--data-dir', flags.dataDir],
  ];
  return candidates.flatMap(([path, from, value]) => (value ? [{ path, from, value }] : []));
}

function applyOverrides(data: unknown, overrides: readonly Override[], schema: Schema): unknown {
  if (!isObject(data)) return data;
  const result: Record<string, unknown> = { ...data };
  for (const { path, value } of overrides) {
    const [outer, inner] = path;
    const rule = schema.properties?.[outer] ?? {};
    if (inner === undefined) {
      result[outer] = convert(value, rule);
    } else {
      const section = isObject(result[outer]) ? result[outer] : {};
      result[outer] = { ...section, [inner]: convert(value, rule.properties?.[inner] ?? {}) };
    }
  }
  return result;
}
