import type { Effort, ReasoningWish } from '../core/dialogue.ts';

/** The efforts that numbers of tokens stand for, where a client counts and a vendor does not. */
const budgets: readonly (readonly [number, Effort])[] = [
  [2_048, 'low'],
  [12_000, 'medium'],
];

/** The effort a client wants, also where it gave a number of tokens; null for the model's own. */
export function effortOf(wish: ReasoningWish | null): Effort | null {
  if (wish === null || wish.effort !== null) return wish?.effort ?? null;
  const { budgetTokens } = wish;
  if (budgetTokens === null) return null;
  return budgets.find(([most]) => budgetTokens <= most)?.[1] ?? 'high';
}
