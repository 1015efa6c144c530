import type { Dialogue, Turn } from '../../../core/dialogue.ts';

/** The name of the wish how closely to look at pictures, which only OpenAI can grant. */
export function detailNames({ turns }: Dialogue): readonly string[] {
  return turns.some(asksForDetail) ? ['detail'] : [];
}

/** `auto` asks for nothing: it is the default of every model. */
function asksForDetail(turn: Turn): boolean {
  if (turn.role !== 'user') return false;
  return turn.parts.some((part) => part.kind === 'image' && (part.detail ?? 'auto') !== 'auto');
}
