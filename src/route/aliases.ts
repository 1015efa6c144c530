import type { AliasConditions, AliasTarget } from '../config/alias-schema.ts';
import type { Alias } from '../config/aliases.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { Wildcards } from '../core/wildcards.ts';

/** What the conditions of an alias compare. */
export interface AliasRequest {
  readonly caller: Caller;
  readonly hasImages: boolean;
  readonly hasTools: boolean;
  readonly inputTokens: number;
  /** Returns a header of the request, or null. */
  header(name: string): string | null;
  /**
   * Returns a number from 0 to 1 for a purpose. Repetitions of a request get the same numbers, so
   * that they choose the same model.
   */
  random(purpose: string): number;
}

/** The names that an operator has defined for models. Immutable. */
export class Aliases {
  readonly #aliases: ReadonlyMap<string, Alias>;
  readonly #wildcards: Wildcards<Alias>;

  constructor(aliases: readonly Alias[] = []) {
    this.#aliases = new Map(aliases.map((alias) => [alias.name, alias]));
    this.#wildcards = new Wildcards(this.#aliases);
  }

  /** Returns whether there is an alias with exactly this name. */
  has(name: string): boolean {
    return this.#aliases.has(name);
  }

  /**
   * Returns the models to try for an alias, in order, or undefined if the name is no alias for this
   * request. The ID of a model comes before wildcards.
   */
  modelsFor(name: string, request: AliasRequest, isId: boolean): readonly string[] | undefined {
    const exact = this.#aliases.get(name);
    const found = exact
      ? { value: exact, rest: '' }
      : isId
        ? undefined
        : this.#wildcards.find(name);
    if (!found) return undefined;
    const { value, rest } = found;
    const matching = value.targets.filter((target) => matches(target.when, name, request));
    if (matching.length === 0) return undefined;
    const models = inWeightedOrder(matching, name, request).map(({ model }) =>
      model.endsWith('*') ? model.slice(0, -1) + rest : model,
    );
    return [...new Set(models)];
  }

  /**
   * Returns the aliases that a caller can use, each with the models that it may stand for. Names
   * that end in `*` are left out, because requests can't have them.
   */
  listFor(caller: Caller): readonly (Alias & { readonly models: readonly string[] })[] {
    return [...this.#aliases.values()].flatMap((alias) => {
      if (alias.name.endsWith('*')) return [];
      const models = alias.targets
        .filter(({ when }) => isFor(when, caller))
        .map(({ model }) => model);
      const granted = mayUseModel(caller, alias.name)
        ? models
        : models.filter((model) => mayUseModel(caller, model));
      return granted.length === 0 ? [] : [{ ...alias, models: granted }];
    });
  }
}

function isFor({ tenants, keys }: AliasConditions = {}, { tenantId, keyId }: Caller): boolean {
  if (tenants && !tenants.includes(tenantId)) return false;
  return !keys || keys.includes(keyId);
}

function matches(
  when: AliasConditions | undefined,
  name: string,
  { caller, hasImages, hasTools, inputTokens, header, random }: AliasRequest,
): boolean {
  if (!when) return true;
  if (!isFor(when, caller)) return false;
  if (when.images !== undefined && when.images !== hasImages) return false;
  if (when.tools !== undefined && when.tools !== hasTools) return false;
  if (when.input_tokens_above !== undefined && inputTokens <= when.input_tokens_above) return false;
  if (when.header && header(when.header.name) !== when.header.value) return false;
  if (when.tag !== undefined && !tagsIn(header('x-tollgate-tags')).includes(when.tag)) return false;
  return when.percent === undefined || random(`${name} percent`) * 100 < when.percent;
}

function tagsIn(list: string | null): readonly string[] {
  return list === null ? [] : list.split(',').map((tag) => tag.trim());
}

/**
 * Puts one of the weighted models, chosen in proportion to the weights, where the first of them is.
 * The others follow it in the operator's order. Models with the weight 0 are only fallbacks.
 */
function inWeightedOrder(
  targets: readonly AliasTarget[],
  name: string,
  { random }: AliasRequest,
): readonly AliasTarget[] {
  const total = targets.reduce((sum, { weight = 0 }) => sum + weight, 0);
  if (total === 0) return targets;
  let rest = random(`${name} weight`) * total;
  const chosen = targets.find(({ weight = 0 }) => {
    rest -= weight;
    return weight > 0 && rest < 0;
  });
  if (!chosen) return targets;
  const first = targets.findIndex(({ weight }) => weight !== undefined);
  const others = targets.filter((target) => target !== chosen);
  return [...others.slice(0, first), chosen, ...others.slice(first)];
}
