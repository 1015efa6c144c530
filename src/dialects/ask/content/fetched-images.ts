import type { Dialogue, Turn, UserPart } from '../../../core/dialogue.ts';
import type { Images } from '../../dialect.ts';

/** Replaces addresses by the fetched pictures, in the user's words and in results of tools. */
export function withFetched(dialogue: Dialogue, images: Images): Dialogue {
  if (images.size === 0) return dialogue;
  const fetched = <Part extends UserPart>(part: Part): Part => {
    if (part.kind === 'tool_result') return { ...part, parts: part.parts.map(fetched) };
    return part.kind === 'image' ? { ...part, url: images.get(part.url) ?? part.url } : part;
  };
  const inTurn = (turn: Turn): Turn =>
    turn.role === 'user' ? { ...turn, parts: turn.parts.map(fetched) } : turn;
  return { ...dialogue, turns: dialogue.turns.map(inTurn) };
}
