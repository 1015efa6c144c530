import type { Dialogue, Turn } from '../../../core/dialogue.ts';

/** How closely pictures are to be looked at, which is OpenAI's alone: to be told as left out. */
export function detailNames({ turns }: Dialogue): readonly string[] {
  return turns.some(asksForDetail) ? ['detail'] : [];
}

/** `auto` is what every model does without a word. */
function asksForDetail(turn: Turn): boolean {
  if (turn.role !== 'user') return false;
  return turn.parts.some((part) => part.kind === 'image' && (part.detail ?? 'auto') !== 'auto');
}
