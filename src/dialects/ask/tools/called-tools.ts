import type { ToolCallPart, Turn } from '../../../core/dialogue.ts';

/** The calls of tools that are in a conversation already. */
export function callsIn(turns: readonly Turn[]): readonly ToolCallPart[] {
  return turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_call'));
}
