import type { Model } from '../config/config.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import type { Bound, CostBounds } from '../money/price/bounds.ts';
import type { Aliases } from './aliases.ts';
import { CallableModels, type Offer } from './catalog.ts';
import type { ModelNames } from './model-names.ts';
import {
  forbiddenModel,
  mayUseRequested,
  type PlannedOperation,
  type PlanningContext,
  planOperation,
  unknownModel,
} from './plan.ts';

// Explains how a request would be routed, without sending it.

export interface ExplainedOperation extends PlannedOperation {
  readonly bounds: CostBounds;
}

export interface RouteExplanation {
  /** The requested models, by alias. */
  readonly models: readonly string[];
  /** The offers that would be tried, in order. */
  readonly plan: readonly ExplainedOffer[];
  readonly excluded: readonly Exclusion[];
  /** What would be held and charged at most. Null if there is no plan. */
  readonly bound: Bound | null;
  /** Why the request would be rejected, or null. */
  readonly error: GatewayError | null;
}

export interface ExplainedOffer {
  readonly offer: Offer;
  /** The fields of the request that the offer would not receive. */
  readonly lostFields: readonly string[];
  readonly bound: Bound;
}

/** Why a provider of a model would not be tried, or the entire model if `provider` is null. */
export interface Exclusion {
  readonly model: string;
  readonly provider: string | null;
  /** Null for a provider that needs a key of the tenant, and for an entire model. */
  readonly offer: Offer | null;
  readonly reason: string;
}

interface ExplainContext extends PlanningContext {
  readonly creditsPerUsd: number;
}

export function explainRoute(
  operation: ExplainedOperation,
  caller: Caller,
  context: ExplainContext,
): RouteExplanation {
  const { request, bounds } = operation;
  const { catalog, creditsPerUsd } = context;
  const planned = attempt(() => planOperation(operation, caller, context));
  const offers = planned instanceof GatewayError ? [] : planned;
  return {
    models: request.models,
    plan: offers.map((offer) => ({
      offer,
      lostFields: operation.lostFields(offer),
      bound: bounds.boundFor([offer], creditsPerUsd),
    })),
    excluded: request.models.flatMap((model) => {
      const exclusion = exclusionOfModel(model, request, caller, catalog);
      if (exclusion) return [exclusion];
      const candidates = candidatesOf(model, catalog);
      const notPlanned = candidates.filter((offer) => !offers.includes(offer));
      const excluded = notPlanned.map((offer): Exclusion => {
        const reason = exclusionReason(operation, offer, caller, context);
        return { model, provider: offer.provider.name, offer, reason };
      });
      return [...excluded, ...withoutKey(model, candidates, catalog)];
    }),
    bound: offers.length > 0 ? bounds.boundFor(offers, creditsPerUsd) : null,
    error: planned instanceof GatewayError ? planned : null,
  };
}

/** Returns why none of a model's offers can be used, or undefined. */
function exclusionOfModel(
  alias: string,
  request: ExplainedOperation['request'],
  caller: Caller,
  catalog: CallableModels,
): Exclusion | undefined {
  const isKnown = catalog.offers(alias).length > 0;
  if (isKnown && mayUseRequested(caller, alias, request)) return undefined;
  const error = isKnown ? forbiddenModel(alias) : unknownModel(alias, caller, catalog);
  return { model: alias, provider: null, offer: null, reason: error.message };
}

/** Returns the providers of a model that only a key of the tenant could open. */
function withoutKey(
  model: string,
  candidates: readonly Offer[],
  catalog: CallableModels,
): readonly Exclusion[] {
  const served = new Set(candidates.map(({ provider }) => provider.name));
  const names = new Set(catalog.model(model)?.endpoints.map(({ provider }) => provider));
  return [...names.difference(served)].map((provider) => {
    const reason = `The tenant has no provider key for ${provider}.`;
    return { model, provider, offer: null, reason };
  });
}

/** Returns the offers of a model, each followed by the shared offer of the same endpoint. */
function candidatesOf(alias: string, catalog: CallableModels): readonly Offer[] {
  return catalog.offers(alias).flatMap((offer) => {
    const sharedNext = offer.ownAccount?.sharedNext;
    return sharedNext ? [offer, sharedNext] : [offer];
  });
}

/** Plans the request as if this were the only offer. The error says what excludes it. */
function exclusionReason(
  operation: ExplainedOperation,
  offer: Offer,
  caller: Caller,
  context: ExplainContext,
): string {
  const alone: PlannedOperation = {
    request: { ...operation.request, models: [offer.model.id] },
    incompatibility: (candidate) => operation.incompatibility(candidate),
    lostFields: (candidate) => operation.lostFields(candidate),
    refine: (offers) => operation.refine?.(offers) ?? offers,
  };
  const catalog = new WithSingleOffer(context.catalog, offer);
  const planned = attempt(() => planOperation(alone, caller, { ...context, catalog }));
  return planned instanceof GatewayError ? planned.message : afterTheFirst;
}

const afterTheFirst = 'provider.allow_fallbacks is false, and another provider comes first.';

function attempt<Result>(run: () => Result): Result | GatewayError {
  try {
    return run();
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

/** The models of a catalog with only one of their offers. */
class WithSingleOffer extends CallableModels {
  readonly #catalog: CallableModels;
  readonly #offer: Offer;

  constructor(catalog: CallableModels, offer: Offer) {
    super();
    this.#catalog = catalog;
    // A shared offer of the same endpoint would be a second one.
    const { ownAccount } = offer;
    this.#offer = { ...offer, ownAccount: ownAccount && { ...ownAccount, sharedNext: null } };
  }

  override offers(alias: string): readonly Offer[] {
    return alias === this.#offer.model.id ? [this.#offer] : [];
  }

  override model(alias: string): Model | undefined {
    return this.#catalog.model(alias);
  }

  override models(): readonly Model[] {
    return this.#catalog.models();
  }

  override get names(): ModelNames {
    return this.#catalog.names;
  }

  override get ambiguousNames(): CallableModels['ambiguousNames'] {
    return this.#catalog.ambiguousNames;
  }

  override get aliases(): Aliases {
    return this.#catalog.aliases;
  }
}
