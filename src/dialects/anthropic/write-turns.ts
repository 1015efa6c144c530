/** The turns of a dialogue as Anthropic's `system` and `messages`. */
import type { Dialogue } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import { inSides } from './sides.ts';
import { type Block, writeAssistantPart, writeText, writeUserPart } from './write-blocks.ts';

export function writeTurns(
  { turns }: Dialogue,
  target: Target,
  isThinking: boolean,
  dropped: Set<string>,
) {
  return inSides<Block>(turns, {
    text: writeText,
    assistantPart: writeAssistantPart,
    userPart: (part) => writeUserPart(part, dropped),
    arrange: resultsFirst,
    // Older models take instructions in one place only.
    instructsInside: target.quirks.system_messages === 'keep',
    mustBeAsked: isThinking || target.thinking === 'adaptive',
  });
}

/** Anthropic finds the results of one turn only if all of them come first in one message. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const results = content.filter(({ type }) => type === 'tool_result');
  return [...results, ...content.filter(({ type }) => type !== 'tool_result')];
}
