import type { Model } from '../config/config.ts';
import { type ChatAsk, noPreferences, type RoutePreferences, type SortKey } from '../core/ask.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { GatewayError, notFound } from '../core/errors.ts';
import { parseUsd } from '../core/money.ts';
import { isLike } from './capability.ts';
import type { CallableModels, Offer } from './catalogue.ts';
import type { Health } from './health.ts';
import { firstGroup } from './with-probe.ts';

/** What a plan is made from. */
interface Surroundings {
  readonly catalogue: CallableModels;
  readonly health: Health;
  readonly errand: {
    /**
     * Why an offer cannot serve the request, worded to follow the model's name; null when it can.
     */
    misfit(offer: Offer): string | null;
  };
  /** Whether an offer understands a parameter that the client sent. */
  supports(offer: Offer, parameter: string): boolean;
}

/** The part of a request that decides where it goes. */
type RoutedAsk = Pick<ChatAsk, 'models' | 'preferences' | 'parameters'>;

/** The offers to try, in order. Throws when nothing is left, saying what ruled the last one out. */
export function plan(ask: RoutedAsk, caller: Caller, around: Surroundings): readonly Offer[] {
  const { preferences } = ask;
  const able = keepAble(knownModels(ask, caller, around.catalogue), around);
  // Most requests say nothing about providers; then there is nothing to rule out.
  if (preferences === noPreferences) return order(able, preferences, around.health);
  const ordered = order(keepWished(able, ask, around), preferences, around.health);
  if (preferences.allowFallbacks) return ordered;
  // A recovering offer takes a single request, its probe. If another request has become its probe
  // by the time this one is sent, the next offer stands in; so the plan reaches to the first that
  // does not depend on a probe. Not further: credits are set aside for the dearest offer of a plan.
  const group = firstGroup(ordered, preferences);
  const sure = group.findIndex((offer) => around.health.state(offer) !== 'half_open');
  return sure === -1 ? group : group.slice(0, sure + 1);
}

/** The offers of each model that the client names, in its order. */
type Groups = readonly (readonly Offer[])[];

function keepWished(able: Groups, ask: RoutedAsk, { supports }: Surroundings): Groups {
  const { preferences, parameters } = ask;
  const isAsked = (offer: Offer) => isWanted(offer, preferences);
  const wanted = keep(able, isAsked, nobodyWanted(preferences));
  const isWithin = (offer: Offer) => isAffordable(offer, preferences);
  const dear = 'No provider of this model is within provider.max_price.';
  const affordable = keep(wanted, isWithin, dear);
  if (!preferences.requireParameters) return affordable;
  const isAble = (offer: Offer) => parameters.every((name) => supports(offer, name));
  const unable = 'No provider of this model supports every parameter of this request.';
  return keep(affordable, isAble, unable);
}

/** Keeps the offers that pass a test; refuses the request when none is left. */
function keep(groups: Groups, isKept: (offer: Offer) => boolean, refusal: string): Groups {
  const kept = groups.map((group) => group.filter(isKept));
  if (kept.every((group) => group.length === 0)) throw notFound(refusal, 'provider');
  return kept;
}

function knownModels(ask: RoutedAsk, caller: Caller, catalogue: CallableModels): Groups {
  const groups: (readonly Offer[])[] = [];
  let forbidden: string | undefined;
  for (const alias of ask.models) {
    const offers = catalogue.offers(alias);
    if (offers.length === 0) continue;
    if (mayUseModel(caller, alias)) groups.push(offers);
    else forbidden ??= alias;
  }
  if (groups.length > 0) return groups;
  if (forbidden === undefined) throw unknownModel(ask.models[0] ?? '', caller, catalogue);
  throw forbiddenModel(forbidden);
}

export function forbiddenModel(alias: string): GatewayError {
  const message = `This API key may not use the model "${alias}".`;
  return new GatewayError('forbidden', message, { param: 'model' });
}

const listed = 'GET /v1/models lists those that exist';

/** The error for a model that nobody serves to this caller: why, and what to ask for instead. */
export function unknownModel(
  alias: string,
  caller: Caller,
  catalogue: CallableModels,
): GatewayError {
  const known = catalogue.model(alias);
  if (known?.whyOff) return notFound(whyOff(known, caller, catalogue), 'model');
  if (known) {
    const names = new Set(known.endpoints.map(({ provider }) => provider));
    const needed = names.size > 0 ? `: it needs a key of ${[...names].join(' or ')}.` : '.';
    const message = `No provider that serves the model "${alias}" is configured here${needed}`;
    return notFound(message, 'model');
  }
  const close = catalogue.suggest(alias);
  const hint = close && mayUseModel(caller, close) ? `did you mean "${close}"?` : `${listed}.`;
  return notFound(`There is no model "${alias}"; ${hint}`, 'model');
}

/** Nobody tries more suggested names than this. */
const namedInsteadMax = 3;

function whyOff(model: Model, caller: Caller, catalogue: CallableModels): string {
  const others = catalogue
    .live()
    .filter((other) => isLike(other, model) && mayUseModel(caller, other.id))
    .slice(0, namedInsteadMax)
    .map(({ id }) => `"${id}"`);
  const instead = others.length > 0 ? `use ${others.join(' or ')}` : listed;
  return `The model "${model.id}" ${model.whyOff}; ${instead}.`;
}

function keepAble(groups: Groups, around: Surroundings): Groups {
  const able: Offer[][] = [];
  let misfit: string | undefined;
  for (const group of groups) {
    const fitting: Offer[] = [];
    for (const offer of group) {
      const why = around.errand.misfit(offer);
      if (why === null) fitting.push(offer);
      else misfit ??= `The model "${offer.model.id}" ${why}.`;
    }
    able.push(fitting);
  }
  if (misfit !== undefined && able.every((group) => group.length === 0)) {
    throw new GatewayError('model_capability_mismatch', misfit, { param: 'model' });
  }
  return able;
}

function isWanted({ provider }: Offer, wishes: RoutePreferences): boolean {
  if (wishes.only && !wishes.only.includes(provider.name)) return false;
  if (wishes.ignore.includes(provider.name)) return false;
  // Without fallbacks, `order` lists the only providers that are acceptable.
  const mustBeListed = !wishes.allowFallbacks && wishes.order.length > 0;
  return !mustBeListed || wishes.order.includes(provider.name);
}

/** Says which wishes of the client ruled all offers out. */
function nobodyWanted({ only, ignore, order: listed, allowFallbacks }: RoutePreferences): string {
  const wishes = [
    ...(only ? ['provider.only'] : []),
    ...(ignore.length > 0 ? ['provider.ignore'] : []),
    ...(listed.length > 0 && !allowFallbacks ? ['provider.order without fallbacks'] : []),
  ];
  return `No provider of this model is left after ${wishes.join(' and ')}.`;
}

/**
 * Compares the prices of short prompts, as the order by price does: the model list quotes those,
 * and a prompt's length in tokens is a guess until a provider has counted it. A plan that relied on
 * the guess might refuse or reorder a request that was served a moment ago. The hold covers the
 * higher prices.
 */
function isAffordable({ prices }: Offer, { maxPrice }: RoutePreferences): boolean {
  const within = (price: bigint, most: number | null) => {
    const bound = most === null ? undefined : parseUsd(most.toFixed(9));
    // A bound too large to be a price rules nothing out.
    return bound === undefined || price <= bound;
  };
  return within(prices.prompt, maxPrice.prompt) && within(prices.completion, maxPrice.completion);
}

function order(groups: Groups, wishes: RoutePreferences, health: Health): readonly Offer[] {
  if (wishes.route === 'sort') {
    return arrange(groups.flat(), { ...wishes, sort: wishes.sort ?? 'price' }, health);
  }
  const ordered: Offer[] = [];
  for (const group of groups) {
    for (const offer of arrange(group, wishes, health)) ordered.push(offer);
  }
  return ordered;
}

/**
 * Orders one group: by wish, then by the sort key, then by priority; a shared offer follows the
 * tenant's own account at the same endpoint; open circuits come last.
 */
function arrange(
  group: readonly Offer[],
  wishes: RoutePreferences,
  health: Health,
): readonly Offer[] {
  if (group.length < 2 && !group[0]?.own?.sharedNext) return group;
  const well: Offer[] = [];
  const open: Offer[] = [];
  const put = (offer: Offer) => (health.state(offer) === 'open' ? open : well).push(offer);
  for (const offer of group.toSorted(comparison(wishes, health))) {
    put(offer);
    if (offer.own?.sharedNext) put(offer.own.sharedNext);
  }
  return open.length === 0 ? well : [...well, ...open];
}

function comparison(wishes: RoutePreferences, health: Health): (a: Offer, b: Offer) => number {
  const compare = wishes.sort ? comparisons[wishes.sort] : byPriority;
  return (a, b) => rankOf(a, wishes) - rankOf(b, wishes) || compare(a, b, health);
}

/** The place in the client's own order; providers that it does not name come last. */
function rankOf({ provider }: Offer, wishes: RoutePreferences): number {
  const rank = wishes.order.indexOf(provider.name);
  return rank === -1 ? wishes.order.length : rank;
}

type Comparison = (a: Offer, b: Offer, health: Health) => number;

const byPriority: Comparison = (a, b) => a.priority - b.priority;

const comparisons: Readonly<Record<SortKey, Comparison>> = {
  price: (a, b) => Number(listPrice(a) - listPrice(b)),
  latency: (a, b, health) => health.firstByteMs(a) - health.firstByteMs(b),
  throughput: (a, b, health) => {
    const [ofA, ofB] = [health.tokensPerSecond(a), health.tokensPerSecond(b)];
    // Offers that nobody has tried are infinitely fast, and infinity minus infinity is NaN.
    return ofA === ofB ? 0 : ofB - ofA;
  },
};

function listPrice({ prices }: Offer): bigint {
  return prices.prompt + prices.completion;
}
