import type { RoutePreferences } from '../core/ask.ts';
import type { Offer } from './catalogue.ts';
import type { Health } from './health.ts';

/**
 * The plan at the moment when its first offer is asked. Where that offer is recovering, this
 * request becomes its probe; where another request has become its probe since the plan was made,
 * the offer goes behind the others of its group. Decided here and not while planning: a request
 * that is refused for lack of credits would use the probe up and find nothing out.
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

/** The offers of a plan that may change places with its first one. */
export function firstGroup(
  plan: readonly Offer[],
  { route }: Pick<RoutePreferences, 'route'>,
): readonly Offer[] {
  const end = plan.findIndex(({ model }) => route !== 'sort' && model.id !== plan[0]?.model.id);
  return end === -1 ? plan : plan.slice(0, end);
}
