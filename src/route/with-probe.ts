import type { RoutePreferences } from '../core/ask.ts';
import type { Offer } from './catalogue.ts';
import type { Health } from './health.ts';

/**
 * A plan at the moment when its first offer is asked: if that one recovers, this request is its
 * probe. Where another became that since the plan was made, it goes behind the others of its group.
 * Not while planning: a request that is refused for want of credits finds nothing out, and many of
 * them would keep an offer away for as long as they come.
 */
export function withProbe(
  plan: readonly Offer[],
  { route, allowFallbacks }: Pick<RoutePreferences, 'route' | 'allowFallbacks'>,
  health: Health,
): readonly Offer[] {
  const group = firstGroup(plan, { route });
  const at = group.findIndex((offer) => health.admit(offer));
  if (!allowFallbacks) return group.slice(Math.max(0, at)).slice(0, 1);
  if (at < 1) return plan;
  return [...group.slice(at), ...group.slice(0, at), ...plan.slice(group.length)];
}

/** Those that may change places with the first of a plan. */
export function firstGroup(
  plan: readonly Offer[],
  { route }: Pick<RoutePreferences, 'route'>,
): readonly Offer[] {
  const end = plan.findIndex(({ model }) => route !== 'sort' && model.id !== plan[0]?.model.id);
  return end === -1 ? plan : plan.slice(0, end);
}
