import type { RoutePreferences, SortKey } from '../core/ask.ts';
import { noPreferences } from '../core/ask.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import type { ChatAsk } from '../core/chat.ts';
import { GatewayError, notFound } from '../core/errors.ts';
import { parseUsd } from '../core/money.ts';
import type { CallableModels, Offer } from './catalogue.ts';
import type { Health } from './health.ts';

/** What a plan is made from. Pure but for the health it consults. */
export interface Surroundings {
  readonly catalogue: CallableModels;
  readonly health: Health;
  /** Why a model cannot serve this request, in words that follow its name; null when it can. */
  misfit(offer: Offer): string | null;
  /** Whether an offer understands a parameter that the client sent. */
  supports(offer: Offer, parameter: string): boolean;
}

/** The part of a request that decides its way. */
export type RoutedAsk = Pick<ChatAsk, 'models' | 'preferences' | 'parameters'>;

/** The offers to try, in order. Throws when nothing is left, saying what ruled the last one out. */
export function plan(ask: RoutedAsk, caller: Caller, around: Surroundings): readonly Offer[] {
  const { preferences } = ask;
  const groups = knownModels(ask, caller, around.catalogue);
  const able = keepAble(groups, around);
  // Most requests say nothing about providers; then there is nothing to rule out.
  if (preferences === noPreferences) return order(able, preferences, around.health);
  const wanted = able.map((group) => group.filter((offer) => isWanted(offer, preferences)));
  refuseEmpty(wanted, nobodyWanted(preferences));
  const affordable = wanted.map((group) =>
    group.filter((offer) => isAffordable(offer, preferences)),
  );
  refuseEmpty(affordable, 'No provider of this model is within provider.max_price.');
  const complete = preferences.requireParameters
    ? affordable.map((group) =>
        group.filter((offer) => ask.parameters.every((name) => around.supports(offer, name))),
      )
    : affordable;
  refuseEmpty(complete, 'No provider of this model supports every parameter of this request.');
  const ordered = order(complete, preferences, around.health);
  return preferences.allowFallbacks ? ordered : ordered.slice(0, 1);
}

function knownModels(
  ask: RoutedAsk,
  caller: Caller,
  catalogue: CallableModels,
): (readonly Offer[])[] {
  const [first = ''] = ask.models;
  const known = ask.models.filter((alias) => catalogue.offers(alias).length > 0);
  if (known.length === 0) {
    if (catalogue.model(first)) {
      throw notFound(`No provider that serves the model "${first}" is configured here.`, 'model');
    }
    const close = catalogue.suggest(first);
    const hint =
      close && mayUseModel(caller, close)
        ? `did you mean "${close}"?`
        : 'GET /v1/models lists those that exist.';
    throw notFound(`There is no model "${first}"; ${hint}`, 'model');
  }
  const allowed = known.filter((alias) => mayUseModel(caller, alias));
  if (allowed.length === 0) {
    const message = `This API key may not use the model "${known[0]}".`;
    throw new GatewayError('forbidden', message, { param: 'model' });
  }
  return allowed.map((alias) => catalogue.offers(alias));
}

function keepAble(groups: readonly (readonly Offer[])[], around: Surroundings): Offer[][] {
  let misfit: string | undefined;
  const able = groups.map((group) =>
    group.filter((offer) => {
      const why = around.misfit(offer);
      if (why !== null) misfit ??= `The model "${offer.model.id}" ${why}.`;
      return why === null;
    }),
  );
  if (misfit !== undefined && able.every((group) => group.length === 0)) {
    throw new GatewayError('model_capability_mismatch', misfit, { param: 'model' });
  }
  return able;
}

function isWanted({ provider }: Offer, wishes: RoutePreferences): boolean {
  if (wishes.only && !wishes.only.includes(provider.name)) return false;
  if (wishes.ignore.includes(provider.name)) return false;
  // Without fallbacks, an order is a list of the only ones acceptable.
  const mustBeListed = !wishes.allowFallbacks && wishes.order.length > 0;
  return !mustBeListed || wishes.order.includes(provider.name);
}

/** Names the wishes that left nobody. */
function nobodyWanted({ only, ignore, order: listed, allowFallbacks }: RoutePreferences): string {
  const wishes = [
    ...(only ? ['provider.only'] : []),
    ...(ignore.length > 0 ? ['provider.ignore'] : []),
    ...(listed.length > 0 && !allowFallbacks ? ['provider.order without fallbacks'] : []),
  ];
  return `No provider of this model is left after ${wishes.join(' and ')}.`;
}

/**
 * By the prices of short prompts, and so is the order by price: they are what the model list
 * quotes, and a prompt's length in tokens is a guess until a provider has counted it. A plan that
 * turned on the guess would refuse or reorder what the same words got a moment ago. The hold covers
 * the steps.
 */
function isAffordable({ prices }: Offer, { maxPrice }: RoutePreferences): boolean {
  const within = (price: bigint, most: number | null) => {
    const bound = most === null ? undefined : parseUsd(most.toFixed(9));
    // A bound too large to be a price rules nothing out.
    return bound === undefined || price <= bound;
  };
  return within(prices.prompt, maxPrice.prompt) && within(prices.completion, maxPrice.completion);
}

function refuseEmpty(groups: readonly (readonly Offer[])[], message: string): void {
  if (groups.every((group) => group.length === 0)) throw notFound(message, 'provider');
}

function order(
  groups: readonly (readonly Offer[])[],
  wishes: RoutePreferences,
  health: Health,
): Offer[] {
  if (wishes.route === 'sort') {
    return arrange(groups.flat(), { ...wishes, sort: wishes.sort ?? 'price' }, health);
  }
  return groups.flatMap((group) => arrange(group, wishes, health));
}

/**
 * One group: by wish, then by the sort key, then by priority, and behind a tenant's own account the
 * shared one at the same endpoint; open circuits at the end.
 */
function arrange(group: readonly Offer[], wishes: RoutePreferences, health: Health): Offer[] {
  const [only] = group;
  if (group.length < 2 && !only?.own?.sharedNext) return [...group];
  const place = ({ provider }: Offer): number => {
    const at = wishes.order.indexOf(provider.name);
    return at === -1 ? wishes.order.length : at;
  };
  const compare = wishes.sort ? comparisons[wishes.sort] : byPriority;
  const sorted = [...group]
    .sort((a, b) => place(a) - place(b) || compare(a, b, health))
    .flatMap((offer) => (offer.own?.sharedNext ? [offer, offer.own.sharedNext] : [offer]));
  const admitted = new Set(sorted.filter((offer) => health.admits(offer)));
  return [...sorted].sort((a, b) => Number(admitted.has(b)) - Number(admitted.has(a)));
}

type Comparison = (a: Offer, b: Offer, health: Health) => number;

const byPriority: Comparison = (a, b) => a.priority - b.priority;

const comparisons: Readonly<Record<SortKey, Comparison>> = {
  price: (a, b) => Number(listPrice(a) - listPrice(b)),
  latency: (a, b, health) => health.firstByteMs(a) - health.firstByteMs(b),
  throughput: (a, b, health) => {
    const [fast, slow] = [health.tokensPerSecond(b), health.tokensPerSecond(a)];
    return fast === slow ? 0 : fast - slow;
  },
};

function listPrice({ prices }: Offer): bigint {
  return prices.prompt + prices.completion;
}
