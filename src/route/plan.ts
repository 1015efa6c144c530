import type { Model } from '../config/config.ts';
import { nameLengthMax } from '../core/bounds.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { GatewayError, invalidRequest, notFound } from '../core/errors.ts';
import {
  type ChatRequestInfo,
  noPreferences,
  type RequestInfo,
  type RoutePreferences,
  type SortKey,
} from '../core/request-info.ts';
import { parseUsd } from '../money/price/usd.ts';
import { entitledOffers, isSimilarModel } from './capability.ts';
import type { CallableModels, Offer } from './catalog.ts';
import type { Health } from './health.ts';
import { orderByWeight, type WeightContext } from './split.ts';

/** The models, provider states, and parameter support that a plan depends on. */
export interface PlanningContext extends WeightContext {
  readonly catalog: CallableModels;
  readonly health: Health;
  /** Returns whether an offer understands a parameter that the client sent. */
  supports(offer: Offer, parameter: string): boolean;
}

interface PlanContext extends PlanningContext {
  readonly operation: {
    /**
     * Returns why an offer can't serve the request, phrased to follow the model's name, or null.
     */
    incompatibility(offer: Offer): string | null;
  };
}

/** The part of a request that decides where it is sent. */
type RoutedRequestInfo = Pick<ChatRequestInfo, 'models' | 'granted' | 'preferences' | 'parameters'>;

/** The part of an operation that planning uses. */
export interface PlannedOperation {
  readonly request: RoutedRequestInfo & Pick<RequestInfo, 'ownAccount' | 'urls' | 'images'>;
  incompatibility(offer: Offer): string | null;
  lostFields(offer: Offer): readonly string[];
  refine?(plan: readonly Offer[]): readonly Offer[];
}

/**
 * Returns the offers to try for an operation, in order. Leaves out offers whose account or limits
 * rule out the request's content. Throws if none is left.
 */
export function planOperation(
  operation: PlannedOperation,
  caller: Caller,
  context: PlanningContext,
): readonly Offer[] {
  const { request } = operation;
  const entitled = entitledOffers(plan(request, caller, { ...context, operation }), request);
  const refined = operation.refine?.(entitled) ?? entitled;
  return request.preferences.lossless ? losslessOffers(refined, operation) : refined;
}

/** Returns the offers that receive every field of the request. Throws 400 if there are none. */
function losslessOffers(
  offers: readonly Offer[],
  operation: Pick<PlannedOperation, 'lostFields'>,
): readonly Offer[] {
  const lossless = offers.filter((offer) => operation.lostFields(offer).length === 0);
  const [first] = offers;
  if (lossless.length > 0 || !first) return lossless;
  const lost = operation.lostFields(first);
  const shown = lost.slice(0, lostFieldsShownMax).map((field) => safeName(field));
  const fields = `${shown.join(', ')}${lost.length > shown.length ? ', and others' : ''}`;
  const reason = `${first.model.id} would lose ${fields}`;
  const message = `provider.lossless excludes every provider: ${reason}.`;
  throw invalidRequest(message, shown[0] ?? 'provider.lossless');
}

/** Limits the names in an error message. Clients can send any number of unknown fields. */
const lostFieldsShownMax = 10;

function safeName(field: string): string {
  return field.slice(0, nameLengthMax).toWellFormed();
}

/**
 * Returns the offers to try, in order. If none is left, throws an error that names what excluded
 * the last ones.
 */
export function plan(
  request: RoutedRequestInfo,
  caller: Caller,
  context: PlanContext,
): readonly Offer[] {
  const { preferences } = request;
  const known = knownModels(request, caller, context.catalog);
  const compatible = withCompatible(known, context);
  // Most requests have no provider preferences.
  if (preferences === noPreferences) {
    return order(inUse(compatible, preferences), preferences, context);
  }
  const ordered = order(withPreferred(compatible, request, context), preferences, context);
  if (preferences.allowFallbacks) return ordered;
  // A recovering offer admits a single request as its probe. Another request may become the probe
  // before this one is sent, so the plan continues up to the first offer that needs no probe. It
  // goes no further, because credits are held for the most expensive offer of a plan.
  const group = firstGroup(ordered, preferences);
  const firstHealthy = group.findIndex((offer) => context.health.state(offer) !== 'half_open');
  return firstHealthy === -1 ? group : group.slice(0, firstHealthy + 1);
}

/** The offers of each requested model, in the client's order. */
type Groups = readonly (readonly Offer[])[];

function withPreferred(
  compatible: Groups,
  request: RoutedRequestInfo,
  { supports }: PlanContext,
): Groups {
  const { preferences, parameters } = request;
  const isPreferred = (offer: Offer) => matchesPreferences(offer, preferences);
  const matching = filterOffers(compatible, isPreferred, noPreferredOffer(preferences));
  const preferred = inUse(matching, preferences);
  const isWithin = (offer: Offer) => isAffordable(offer, preferences);
  const tooExpensive = 'No provider of this model is within provider.max_price.';
  const affordable = filterOffers(preferred, isWithin, tooExpensive);
  if (!preferences.requireParameters) return affordable;
  const supportsAll = (offer: Offer) => parameters.every((name) => supports(offer, name));
  const unsupported = 'No provider of this model supports every parameter of this request.';
  return filterOffers(affordable, supportsAll, unsupported);
}

/** Keeps the offers that match. Throws if none is left. */
function filterOffers(
  groups: Groups,
  predicate: (offer: Offer) => boolean,
  message: string,
): Groups {
  const remaining = groups.map((group) => group.filter(predicate));
  if (remaining.every((group) => group.length === 0)) throw notFound(message, 'provider');
  return remaining;
}

function knownModels(request: RoutedRequestInfo, caller: Caller, catalog: CallableModels): Groups {
  const groups: (readonly Offer[])[] = [];
  let forbidden: string | undefined;
  for (const alias of request.models) {
    const offers = catalog.offers(alias);
    if (offers.length === 0) continue;
    if (mayUseRequested(caller, alias, request)) groups.push(offers);
    else forbidden ??= alias;
  }
  if (groups.length > 0) return groups;
  if (forbidden === undefined) throw unknownModel(request.models[0] ?? '', caller, catalog);
  throw forbiddenModel(forbidden);
}

/** A key whose allow-list has an alias may use the models of the alias under that name. */
export function mayUseRequested(
  caller: Caller,
  model: string,
  { granted }: Pick<RequestInfo, 'granted'>,
): boolean {
  return mayUseModel(caller, model) || granted?.includes(model) === true;
}

export function forbiddenModel(alias: string): GatewayError {
  const message = `This API key may not use the model "${alias}".`;
  return new GatewayError('forbidden', message, { param: 'model' });
}

const listed = 'GET /v1/models lists the available models';

/** Returns the error for a model without offers for this caller: the reason, and a suggestion. */
export function unknownModel(alias: string, caller: Caller, catalog: CallableModels): GatewayError {
  const known = catalog.model(alias);
  if (known?.disabledReason) return notFound(disabledMessage(known, caller, catalog), 'model');
  if (known) {
    const names = new Set(known.endpoints.map(({ provider }) => provider));
    const providers = [...names].join(' or ');
    const hint = names.size > 0 ? ` It needs a provider key for ${providers}.` : '';
    return notFound(`No provider of the model "${alias}" is configured.${hint}`, 'model');
  }
  const suggestion = catalog.suggest(alias);
  const hint =
    suggestion && mayUseModel(caller, suggestion) ? `did you mean "${suggestion}"?` : `${listed}.`;
  return notFound(`There is no model "${alias}"; ${hint}`, 'model');
}

/** Limits the suggestions in one error message. */
const suggestionsMax = 3;

function disabledMessage(model: Model, caller: Caller, catalog: CallableModels): string {
  const others = catalog
    .callable()
    .filter((other) => isSimilarModel(other, model) && mayUseModel(caller, other.id))
    .slice(0, suggestionsMax)
    .map(({ id }) => `"${id}"`);
  const instead = others.length > 0 ? `use ${others.join(' or ')}` : listed;
  return `The model "${model.id}" ${model.disabledReason}; ${instead}.`;
}

function withCompatible(groups: Groups, context: PlanContext): Groups {
  const compatible: Offer[][] = [];
  let incompatibility: string | undefined;
  for (const group of groups) {
    const matching: Offer[] = [];
    for (const offer of group) {
      const reason = context.operation.incompatibility(offer);
      if (reason === null) matching.push(offer);
      else incompatibility ??= `The model "${offer.model.id}" ${reason}.`;
    }
    compatible.push(matching);
  }
  if (incompatibility !== undefined && compatible.every((group) => group.length === 0)) {
    throw new GatewayError('model_capability_mismatch', incompatibility, { param: 'model' });
  }
  return compatible;
}

/**
 * Leaves out endpoints with a weight of 0, except for requests that name their provider. Throws if
 * none is left.
 */
function inUse(groups: Groups, { only, order: listed }: RoutePreferences): Groups {
  const isUsed = ({ weight, provider: { name } }: Offer) =>
    weight !== 0 || listed.includes(name) || only?.includes(name) === true;
  if (groups.every((group) => group.every(isUsed))) return groups;
  const names = new Set(groups.flatMap((group) => group.map(({ provider }) => provider.name)));
  const message =
    `Requests for this model reach ${[...names].join(' or ')} only if they name it in ` +
    'provider.only or provider.order.';
  return filterOffers(groups, isUsed, message);
}

function matchesPreferences({ provider }: Offer, preferences: RoutePreferences): boolean {
  if (preferences.only && !preferences.only.includes(provider.name)) return false;
  if (preferences.ignore.includes(provider.name)) return false;
  // Without fallbacks, only the providers in `order` are acceptable.
  const mustBeListed = !preferences.allowFallbacks && preferences.order.length > 0;
  return !mustBeListed || preferences.order.includes(provider.name);
}

/** Returns the error message that names the preferences that excluded all offers. */
function noPreferredOffer({
  only,
  ignore,
  order: listed,
  allowFallbacks,
}: RoutePreferences): string {
  const constraints = [
    ...(only ? ['provider.only'] : []),
    ...(ignore.length > 0 ? ['provider.ignore'] : []),
    ...(listed.length > 0 && !allowFallbacks ? ['provider.order without fallbacks'] : []),
  ];
  return `No provider of this model matches ${constraints.join(' and ')}.`;
}

/**
 * Compares the prices for short prompts, as sorting by price does. The model list shows these
 * prices, and a prompt's token count is only an estimate until a provider has counted it. A plan
 * based on the estimate could reject or reorder a request that was served a moment ago. The hold
 * covers the higher prices.
 */
function isAffordable({ prices }: Offer, { maxPrice }: RoutePreferences): boolean {
  const within = (price: bigint, max: number | null) => {
    const bound = max === null ? undefined : parseUsd(max.toFixed(9));
    // A bound too large to be a price excludes nothing.
    return bound === undefined || price <= bound;
  };
  return within(prices.prompt, maxPrice.prompt) && within(prices.completion, maxPrice.completion);
}

function order(
  groups: Groups,
  preferences: RoutePreferences,
  context: PlanContext,
): readonly Offer[] {
  if (preferences.route === 'sort') {
    return arrange(groups.flat(), { ...preferences, sort: preferences.sort ?? 'price' }, context);
  }
  const ordered: Offer[] = [];
  for (const group of groups) {
    for (const offer of arrange(group, preferences, context)) ordered.push(offer);
  }
  return ordered;
}

/**
 * Orders one group: by the client's order, then by the sort key, or by priority and weight. A
 * shared offer follows the tenant's own offer at the same endpoint, and open circuits come last.
 */
function arrange(
  group: readonly Offer[],
  preferences: RoutePreferences,
  context: PlanContext,
): readonly Offer[] {
  const { health } = context;
  if (group.length < 2 && !group[0]?.ownAccount?.sharedNext) return group;
  const healthy: Offer[] = [];
  const open: Offer[] = [];
  const put = (offer: Offer) => (health.state(offer) === 'open' ? open : healthy).push(offer);
  const sorted = group.toSorted(comparison(preferences, health));
  const levelOf = (offer: Offer) => `${rankOf(offer, preferences)} ${offer.priority}`;
  const isSplit = preferences.sort === null && group.some(({ weight }) => weight !== null);
  for (const offer of isSplit ? orderByWeight(sorted, levelOf, context) : sorted) {
    put(offer);
    if (offer.ownAccount?.sharedNext) put(offer.ownAccount.sharedNext);
  }
  return open.length === 0 ? healthy : [...healthy, ...open];
}

function comparison(preferences: RoutePreferences, health: Health): (a: Offer, b: Offer) => number {
  const compare = preferences.sort ? comparisons[preferences.sort] : byPriority;
  return (a, b) => rankOf(a, preferences) - rankOf(b, preferences) || compare(a, b, health);
}

/** Returns the provider's index in the client's order. Others come last. */
function rankOf({ provider }: Offer, preferences: RoutePreferences): number {
  const rank = preferences.order.indexOf(provider.name);
  return rank === -1 ? preferences.order.length : rank;
}

type Comparison = (a: Offer, b: Offer, health: Health) => number;

const byPriority: Comparison = (a, b) => a.priority - b.priority;

const comparisons: Readonly<Record<SortKey, Comparison>> = {
  price: (a, b) => Number(listPrice(a) - listPrice(b)),
  latency: (a, b, health) => health.firstByteMs(a) - health.firstByteMs(b),
  throughput: (a, b, health) => {
    const [ofA, ofB] = [health.tokensPerSecond(a), health.tokensPerSecond(b)];
    // Untried offers have infinite throughput, and infinity minus infinity is NaN.
    return ofA === ofB ? 0 : ofB - ofA;
  },
};

function listPrice({ prices }: Offer): bigint {
  return prices.prompt + prices.completion;
}

/**
 * Adjusts the plan right before its first offer is called. If that offer is recovering, this
 * request becomes its probe. If another request has become the probe since planning, the offer
 * moves behind the others in its group. This isn't decided during planning, because a request that
 * is rejected for lack of credits would use up the probe without a result.
 */
export function withProbe(
  plan: readonly Offer[],
  { route, allowFallbacks }: Pick<RoutePreferences, 'route' | 'allowFallbacks'>,
  health: Health,
): readonly Offer[] {
  const group = firstGroup(plan, { route });
  const index = group.findIndex((offer) => health.admit(offer));
  if (!allowFallbacks) return group.slice(Math.max(0, index)).slice(0, 1);
  if (index < 1) return plan;
  return [...group.slice(index), ...group.slice(0, index), ...plan.slice(group.length)];
}

/** Returns the offers of a plan that can be swapped with the first one. */
function firstGroup(
  plan: readonly Offer[],
  { route }: Pick<RoutePreferences, 'route'>,
): readonly Offer[] {
  const end = plan.findIndex(({ model }) => route !== 'sort' && model.id !== plan[0]?.model.id);
  return end === -1 ? plan : plan.slice(0, end);
}
