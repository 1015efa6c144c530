import { isObject } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import type { PricingConfig } from './model-schema.ts';
import type { ConfigProblem } from './problems.ts';

/**
 * Returns problems in models that the schema can't detect. Even models that don't match the schema
 * are checked, so that all problems are reported together.
 */
export function modelProblems(
  models: unknown,
  providers: ReadonlySet<string>,
  /** Built-in providers without a key, each with the variable for its key. */
  keyless: ReadonlyMap<string, string>,
  /** Whether a problem at or below a path has been reported already. */
  isBroken: (path: string) => boolean,
): ConfigProblem[] {
  const ids = new Set<unknown>();
  return indexedObjects(models).flatMap(([model, i]) => {
    const path = `models[${i}]`;
    const { id, features } = model;
    const problems: ConfigProblem[] = [];
    if (ids.has(id)) {
      const message = `is "${id}", which an earlier model already has`;
      problems.push({ path: `${path}.id`, message });
    }
    if (typeof id === 'string') ids.add(id);
    problems.push(...weightProblems(model.endpoints, `${path}.endpoints`));
    const kinds = Array.isArray(features) ? features : [];
    for (const [{ provider, pricing }, j] of indexedObjects(model.endpoints)) {
      const at = `${path}.endpoints[${j}]`;
      if (typeof provider === 'string' && provider !== '' && !providers.has(provider)) {
        const variable = keyless.get(provider);
        problems.push(unknownProvider(provider, providers, variable, `${at}.provider`));
      }
      problems.push(...priceProblems(kinds, pricing, `${at}.pricing`, isBroken));
    }
    return problems;
  });
}

/** Among endpoints of the same priority, either all have a weight or none has one above 0. */
function weightProblems(endpoints: unknown, path: string): ConfigProblem[] {
  const all = indexedObjects(endpoints);
  if (all.length > 0 && all.every(([{ weight }]) => weight === 0)) {
    return [{ path, message: 'needs a weight above 0 for at least one endpoint' }];
  }
  const weighted = new Set(
    all.filter(([{ weight }]) => Number(weight) > 0).map(([{ priority = 0 }]) => priority),
  );
  return all.flatMap(([{ weight, priority = 0 }, i]) => {
    if (weight !== undefined || !weighted.has(priority)) return [];
    const message =
      'is required, because another endpoint of the same priority has a weight above 0';
    return [{ path: `${path}[${i}].weight`, message }];
  });
}

function indexedObjects(list: unknown): [Readonly<Record<string, unknown>>, number][] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((item: unknown, i) => (isObject(item) ? [[item, i]] : []));
}

function unknownProvider(
  name: string,
  providers: ReadonlySet<string>,
  variable: string | undefined,
  path: string,
): ConfigProblem {
  const message = `names "${name}", which is not a configured provider`;
  if (variable === undefined) {
    const hint = didYouMean(name, providers) || `; add it as providers.${name}`;
    return { path, message: message + hint };
  }
  const hint = `: set ${variable} or providers.${name}.api_key`;
  return { path, message: message + hint, variable };
}

export function priceProblems(
  features: readonly unknown[],
  pricing: unknown = {},
  path: string,
  isBroken: (path: string) => boolean,
): ConfigProblem[] {
  if (!isObject(pricing)) return [];
  const missing = missingPrices(features, pricing);
  if (missing.length > 0) {
    const message = `needs ${missing.join(' and ')}; use "0" for what is free`;
    return [{ path, message }];
  }
  return isBroken(path) ? [] : tierProblems(pricing, `${path}.long_prompts`);
}

/** Returns the problems of the price tiers for long prompts. */
export function tierProblems(pricing: PricingConfig, path: string): ConfigProblem[] {
  const { long_prompts: tiers = [], prompt, completion } = pricing;
  if (tiers.length > 0 && prompt === undefined && completion === undefined) {
    const message = 'requires prompt or completion, because only token prices can have tiers';
    return [{ path, message }];
  }
  return tiers.flatMap(({ above_tokens: above, ...changed }, i): ConfigProblem[] => {
    const before = tiers[i - 1]?.above_tokens ?? 0;
    if (above <= before) {
      const message = `must be greater than that of the previous tier (${before}), not ${above}`;
      return [{ path: `${path}[${i}].above_tokens`, message }];
    }
    if (Object.keys(changed).length > 0) return [];
    const message = 'changes no prices; add the prices that differ';
    return [{ path: `${path}[${i}]`, message }];
  });
}

/** Returns the missing prices that a model with these features needs. */
function missingPrices(
  features: readonly unknown[],
  pricing: Readonly<Record<string, unknown>>,
): readonly string[] {
  const has = (...names: (keyof PricingConfig)[]) =>
    names.some((name) => pricing[name] !== undefined);
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
