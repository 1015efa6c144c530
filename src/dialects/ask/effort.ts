import type { Quirks } from '../../config/provider-schema.ts';
import type { Effort, ReasoningWish } from '../../core/dialogue.ts';
import { unknownFields } from './body/unknown-fields.ts';

/** The effort a client wants, even if it gave a number of tokens; null for the default. */
export function effortOf(wish: ReasoningWish | null): Effort | null {
  if (wish === null) return null;
  const { effort, budgetTokens } = wish;
  if (effort !== null || budgetTokens === null) return effort;
  if (budgetTokens <= 2_048) return 'low';
  return budgetTokens <= 12_000 ? 'medium' : 'high';
}

/** The effort for a model that has only levels: thinking as it sees fit becomes the middle one. */
export function levelOf(wish: ReasoningWish | null): Effort | null {
  return effortOf(wish) ?? (wish?.isAdaptive ? 'medium' : null);
}

/** An effort in the vendor's words, if it has its own; undefined for the model's default. */
export function effortWord(effort: Effort | null, { efforts }: Quirks): string | undefined {
  if (effort === null) return undefined;
  return efforts ? efforts[effort] : effort;
}

/**
 * Whether sampling parameters are refused beside this effort. If the client names no effort, a
 * model with effort levels reasons by default, unless its quirk says that it has to be asked.
 */
export function refusesSampling(
  word: string | undefined,
  { efforts, sampling_while_reasoning: how = 'keep' }: Quirks,
): boolean {
  if (how === 'keep' || word === 'none') return false;
  return word !== undefined || (how === 'drop' && efforts !== undefined);
}

/** Values that only ask for what OpenAI does anyway. */
const usualWays: ReadonlySet<unknown> = new Set(['auto', 'standard']);

/** The paths of unknown wishes about reasoning, such as `reasoning.mode`. */
export function* otherWishes(reasoning: object | null | undefined, known: object) {
  const others = Object.entries(unknownFields(reasoning ?? {}, known));
  for (const [name, value] of others) if (!usualWays.has(value)) yield `reasoning.${name}`;
}
