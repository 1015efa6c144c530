import type { Problem } from '../core/explain.ts';
import { nearest } from '../core/nearest.ts';
import { Secret } from '../core/secret.ts';
import type { BuiltinProvider } from './catalogue/index.ts';
import type { Endpoint, Model, Provider } from './config.ts';
import type { EndpointFile, ModelFile, PricingFile } from './model-schema.ts';
import type { ProviderFile } from './provider-schema.ts';
import type { Environment } from './read-file.ts';
import { isSendable, unsendableKey } from './sendable.ts';

/** The shipped catalogue and the operator's file, laid over each other. */

const defaultTimeoutMs = 120_000;

/**
 * Those of the file and the built-in ones. A built-in one whose key is not at hand is there for
 * tenants who bring theirs.
 */
export function mergeProviders(
  builtin: readonly BuiltinProvider[],
  file: Readonly<Record<string, ProviderFile>>,
  environment: Environment,
  problems: Problem[],
): ReadonlyMap<string, Provider> {
  const providers = new Map<string, Provider>();
  const add = (name: string, own: ProviderFile, shipped: BuiltinProvider | undefined) => {
    const path = `providers.${name}`;
    const dialect = own.dialect ?? shipped?.dialect;
    const baseUrl = own.base_url ?? shipped?.base_url;
    // A key from a file often brings the end of its line.
    const apiKey = (own.api_key ?? environment[shipped?.api_key_env ?? ''])?.trim();
    if (dialect === undefined) problems.push({ path: `${path}.dialect`, message: 'is required' });
    if (baseUrl === undefined) problems.push({ path: `${path}.base_url`, message: 'is required' });
    const shared = own.shared ?? true;
    if (shipped && own.api_key === undefined && !apiKey && shared) {
      const message = `is required: write it here, set ${shipped.api_key_env}, or write null`;
      problems.push({ path: `${path}.api_key`, message });
    }
    if (apiKey && !isSendable('authorization', apiKey)) {
      problems.push({ path: `${path}.api_key`, message: unsendableKey });
    }
    if (Object.entries(own.headers ?? {}).some((header) => !isSendable(...header))) {
      const message = 'has a name or a value that no header can carry';
      problems.push({ path: `${path}.headers`, message });
    }
    if (dialect === undefined || baseUrl === undefined) return;
    if (!isCleanBase(baseUrl)) {
      problems.push({ path: `${path}.base_url`, message: uncleanBase });
    }
    providers.set(name, {
      name,
      dialect,
      baseUrl: baseUrl.replace(/\/+$/, ''),
      apiKey: apiKey ? new Secret(apiKey) : null,
      headers: mapValues(own.headers ?? {}, (value) => new Secret(value)),
      timeoutMs: own.timeout_ms ?? defaultTimeoutMs,
      idleTimeoutMs: own.idle_timeout_ms ?? defaultTimeoutMs,
      shared,
      byokBaseUrl: own.byok_base_url ?? false,
      quirks: { ...shipped?.quirks, ...own.quirks },
    });
  };
  const shippedByName = new Map(builtin.map((provider) => [provider.name, provider]));
  for (const [name, own] of Object.entries(file)) add(name, own, shippedByName.get(name));
  for (const shipped of builtin) {
    const shared = Boolean(environment[shipped.api_key_env]);
    if (!(shipped.name in file)) add(shipped.name, { shared }, shipped);
  }
  return providers;
}

/** Models of the file replace shipped ones of the same id; endpoints nobody serves fall away. */
export function mergeModels(
  builtin: readonly ModelFile[],
  file: readonly ModelFile[],
  providers: ReadonlyMap<string, Provider>,
  /** Those that the file means to have: a broken one is told about once, not once per model. */
  meant: ReadonlySet<string>,
  problems: Problem[],
): readonly Model[] {
  const callable = [...providers.values()].filter(({ shared }) => shared);
  const known = new Set([...callable.map(({ name }) => name), ...meant]);
  const own = new Map<string, Model>();
  file.forEach((model, i) => {
    const path = `models[${i}]`;
    if (own.has(model.id)) {
      problems.push({ path: `${path}.id`, message: `repeats "${model.id}"` });
    }
    model.endpoints.forEach((endpoint, j) => {
      const at = `${path}.endpoints[${j}]`;
      if (!known.has(endpoint.provider)) {
        problems.push(unknownProvider(endpoint.provider, known, at));
      }
      problems.push(...priceProblems(model, endpoint, at));
    });
    own.set(model.id, complete(model, providers));
  });
  const shipped = builtin.filter((model) => !own.has(model.id));
  return [...shipped.map((model) => complete(model, providers)), ...own.values()];
}

function complete(model: ModelFile, providers: ReadonlyMap<string, Provider>): Model {
  const endpoints: Endpoint[] = model.endpoints
    .filter((endpoint) => providers.has(endpoint.provider))
    .map((endpoint) => ({
      ...endpoint,
      priority: endpoint.priority ?? 0,
      pricing: endpoint.pricing ?? {},
    }))
    .sort((a, b) => a.priority - b.priority);
  return { ...model, features: model.features ?? [], endpoints };
}

function unknownProvider(name: string, known: ReadonlySet<string>, path: string): Problem {
  const close = nearest(name, known);
  const hint = close ? `; did you mean "${close}"?` : '';
  const message = `names "${name}", which is not a configured provider${hint}`;
  return { path: `${path}.provider`, message };
}

function priceProblems(model: ModelFile, endpoint: EndpointFile, path: string): Problem[] {
  const pricing = endpoint.pricing ?? {};
  const missing = missingPrices(model, pricing);
  if (missing.length === 0) return stepProblems(pricing, `${path}.pricing.long_prompts`);
  const message = `needs ${missing.join(' and ')}; what costs nothing is written "0"`;
  return [{ path: `${path}.pricing`, message }];
}

/** Why prices cannot go up these steps; empty when they can. */
export function stepProblems(pricing: PricingFile, path: string): Problem[] {
  const { long_prompts: steps = [], prompt, completion } = pricing;
  if (steps.length > 0 && prompt === undefined && completion === undefined) {
    const message = 'needs prompt or completion beside it: only token prices have steps';
    return [{ path, message }];
  }
  return steps.flatMap(({ above_tokens: above, ...changed }, i): Problem[] => {
    const before = steps[i - 1]?.above_tokens ?? 0;
    if (above <= before) {
      const message = `must be more than ${before}, where the step before it begins, not ${above}`;
      return [{ path: `${path}[${i}].above_tokens`, message }];
    }
    if (Object.keys(changed).length > 0) return [];
    const message = 'changes nothing; name the prices that are others there';
    return [{ path: `${path}[${i}]`, message }];
  });
}

/** The prices without which a model of this kind could be used for nothing. */
function missingPrices(model: ModelFile, pricing: PricingFile): readonly string[] {
  const has = (...names: (keyof PricingFile)[]) =>
    names.some((name) => pricing[name] !== undefined);
  const features = model.features ?? [];
  if (features.includes('transcription')) return has('minute') ? [] : ['minute'];
  if (features.includes('embeddings')) return has('prompt') ? [] : ['prompt'];
  if (features.includes('speech')) {
    return has('characters', 'bytes', 'prompt', 'completion') ? [] : ['characters or bytes'];
  }
  if (features.includes('image_edit') || features.includes('image_generation')) {
    return has('output_image', 'completion') ? [] : ['output_image or completion'];
  }
  return (['prompt', 'completion'] as const).filter((name) => !has(name));
}

export const uncleanBase = 'must be an http(s) address without user, query or fragment';

/** Whether an address may be continued by a path. */
export function isCleanBase(text: string): boolean {
  const url = URL.parse(text);
  // Paths are appended to it; behind a sign that begins nothing they would mean something else.
  return url !== null && url.username === '' && !/[?#]/.test(text);
}

function mapValues<T, U>(
  record: Readonly<Record<string, T>>,
  change: (value: T) => U,
): Readonly<Record<string, U>> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
