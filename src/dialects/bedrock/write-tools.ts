/** The tools of a dialogue as Bedrock's `toolConfig`. */
import type { Dialogue, Tool } from '../../core/dialogue.ts';
import { isHeldTo, toolSchema } from '../anthropic/strict-tools.ts';
import { callsIn } from '../ask/tools/earlier-calls.ts';
import type { Target } from '../dialect.ts';
import type { ContentWriter } from './write-content.ts';

export function writeTools(
  dialogue: Dialogue,
  writer: ContentWriter,
  { quirks }: Target,
  dropped: Set<string>,
): object | undefined {
  const { toolChoice } = dialogue;
  const called = [...new Set(callsIn(dialogue.turns).map(({ name }) => name))];
  const isSilenced = toolChoice === 'none';
  // Bedrock has no word for `none`, but a model without tools calls none.
  if (isSilenced && called.length === 0) return undefined;
  // Bedrock refuses a conversation with calls but without tools, even if the client sent no tools.
  const tools: readonly Tool[] =
    dialogue.tools.length > 0 ? dialogue.tools : called.map((name) => ({ name, parameters: null }));
  if (tools.length === 0) return undefined;
  if (isSilenced && dialogue.tools.length > 0) dropped.add('tool_choice');
  // Strictness came to Bedrock with structured output, and to the same models.
  const isHeld = isHeldTo(tools, quirks.json_schema === 'native', dropped);
  return {
    tools: tools.flatMap((tool) => writer.marked({ toolSpec: writeTool(tool, isHeld) }, tool)),
    toolChoice: writeChoice(toolChoice),
  };
}

function writeTool(tool: Tool, isHeld: boolean): object {
  const { name, description, strict } = tool;
  // Nova refuses a schema with `$schema` or `$id`.
  const { $schema: _, $id: __, ...json } = toolSchema(tool, isHeld);
  return {
    name,
    description: description || undefined,
    inputSchema: { json },
    strict: (isHeld && strict) || undefined,
  };
}

/** Not every model takes a choice, so `auto`, which is the default, is not sent. */
function writeChoice(choice: Dialogue['toolChoice']): object | undefined {
  if (choice === 'required') return { any: {} };
  return typeof choice === 'object' && choice ? { tool: { name: choice.name } } : undefined;
}
