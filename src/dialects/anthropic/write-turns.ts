/** The turns of a dialogue as Anthropic's `system` and `messages`. */
import type { Dialogue, Turn } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import { inSides } from './sides.ts';
import { type Block, writeAssistantPart, writeText, writeUserPart } from './write-blocks.ts';

const pleaseContinue: Block = { type: 'text', text: 'Continue.' };

export function writeTurns(
  { turns }: Dialogue,
  target: Target,
  isThinking: boolean,
  dropped: Set<string>,
) {
  return inSides(turns, {
    write: (turn) => writeTurn(turn, dropped),
    arrange: resultsFirst,
    pleaseContinue,
    // Older models take instructions in one place only.
    instructsInside: target.quirks.system_messages === 'keep',
    mustBeAsked: isThinking || target.thinking === 'adaptive',
  });
}

function writeTurn(turn: Turn, dropped: Set<string>): readonly Block[] {
  switch (turn.role) {
    case 'system':
      return turn.parts.flatMap(writeText);
    case 'assistant':
      return turn.parts.flatMap(writeAssistantPart);
    case 'user':
      return turn.parts.flatMap((part) => writeUserPart(part, dropped));
  }
}

/** Anthropic finds the results of one turn only if all of them come first in one message. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const results = content.filter(({ type }) => type === 'tool_result');
  return [...results, ...content.filter(({ type }) => type !== 'tool_result')];
}
