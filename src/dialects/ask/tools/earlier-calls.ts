/** The calls of tools that are in a conversation already. */
import { jsonNamesMax } from '../../../core/bounds.ts';
import type { Dialogue, ToolCallPart, Turn } from '../../../core/dialogue.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { excessIn } from '../../../core/json-depth.ts';

export function callsIn(turns: readonly Turn[]): readonly ToolCallPart[] {
  return turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_call'));
}

/** The least characters per name: its two quotes, its colon, a value and a comma. */
const nameLengthMin = 5;

/**
 * The arguments of calls are JSON inside JSON, so reading the request did not count their names,
 * and some upstreams want them parsed. All together may have as many names as a whole request.
 */
export function refuseManyArguments({ turns }: Dialogue): void {
  const texts = callsIn(turns).map((call) => call.arguments);
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= jsonNamesMax * nameLengthMin) return;
  const most = { levels: Number.POSITIVE_INFINITY, names: jsonNamesMax };
  const counted = { names: 0 };
  for (const text of texts) {
    if (excessIn(text, most, counted) === undefined) continue;
    throw invalidRequest(`The arguments of tool calls have more than ${jsonNamesMax} fields.`);
  }
}
