import { isObject } from '../core/json.ts';
import type { ValidationIssue } from '../core/schema.ts';
import { didYouMean } from '../core/text.ts';
import type { PricingFile } from './model-schema.ts';
import type { MissingVariable } from './problems.ts';

/**
 * Problems of models that a schema cannot find. Models that broke the schema are checked too, so
 * that both kinds of problems are reported together.
 */
export function modelProblems(
  models: unknown,
  providers: ReadonlySet<string>,
  /** Providers that lack only their key, each with the variable in which the key is looked for. */
  keyless: ReadonlyMap<string, string>,
  /** Whether a problem at or below a path was reported already. */
  isBroken: (path: string) => boolean,
): ValidationIssue[] {
  const ids = new Set<unknown>();
  return indexedObjects(models).flatMap(([model, i]) => {
    const path = `models[${i}]`;
    const { id, features } = model;
    const problems: ValidationIssue[] = [];
    if (ids.has(id)) problems.push({ path: `${path}.id`, message: `repeats "${id}"` });
    if (typeof id === 'string') ids.add(id);
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

function indexedObjects(list: unknown): [Readonly<Record<string, unknown>>, number][] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((item: unknown, i) => (isObject(item) ? [[item, i]] : []));
}

function unknownProvider(
  name: string,
  providers: ReadonlySet<string>,
  variable: string | undefined,
  path: string,
): ValidationIssue | MissingVariable {
  const message = `names "${name}", which is not a configured provider`;
  if (variable === undefined) {
    const hint = didYouMean(name, providers) || `; describe it as providers.${name}`;
    return { path, message: message + hint };
  }
  const hint = `: set ${variable}, or write its key as providers.${name}.api_key`;
  return { path, message: message + hint, variable };
}

function priceProblems(
  features: readonly unknown[],
  pricing: unknown = {},
  path: string,
  isBroken: (path: string) => boolean,
): ValidationIssue[] {
  if (!isObject(pricing)) return [];
  const missing = missingPrices(features, pricing);
  if (missing.length > 0) {
    const message = `needs ${missing.join(' and ')}; what costs nothing is written "0"`;
    return [{ path, message }];
  }
  return isBroken(path) ? [] : stepProblems(pricing, `${path}.long_prompts`);
}

/** What is wrong with the price steps for long prompts; empty if nothing is. */
export function stepProblems(pricing: PricingFile, path: string): ValidationIssue[] {
  const { long_prompts: steps = [], prompt, completion } = pricing;
  if (steps.length > 0 && prompt === undefined && completion === undefined) {
    const message = 'needs prompt or completion beside it: only token prices have steps';
    return [{ path, message }];
  }
  return steps.flatMap(({ above_tokens: above, ...changed }, i): ValidationIssue[] => {
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

/** The missing prices without which a model with these features could be used for nothing. */
function missingPrices(
  features: readonly unknown[],
  pricing: Readonly<Record<string, unknown>>,
): readonly string[] {
  const has = (...names: (keyof PricingFile)[]) =>
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
