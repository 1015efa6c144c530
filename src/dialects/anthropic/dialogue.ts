/** An Anthropic client's request in our own words, for upstreams that speak differently. */
import type { Dialogue, JsonWish, ReasoningWish, Tool, ToolChoice } from '../../core/dialogue.ts';
import { cacheMark } from '../ask/cache-marks.ts';
import { exactWords } from '../ask/exact-body.ts';
import { ForeignNames } from '../ask/foreign-names.ts';
import { filledStops } from '../ask/stops.ts';
import { unknownFields } from '../ask/unknown-fields.ts';
import { formatOf, isCustom, type MessagesRequest } from './messages-request.ts';
import { type CustomTool, type MessagesBody, messagesSchema } from './messages-schema.ts';
import { readTurns } from './turns.ts';

type Given = Pick<MessagesRequest, 'body' | 'source'>;

export function readDialogue({ body: given, source }: Given): Dialogue {
  const body = exactWords(given, source);
  const foreign = new ForeignNames();
  for (const name in unknownFields(body, messagesSchema.properties)) foreign.add(name);
  const turns = readTurns(body, foreign);
  const tools = readTools(body, foreign);
  return {
    turns,
    tools,
    toolChoice: readToolChoice(body.tool_choice),
    parallelTools: readParallel(body.tool_choice),
    outputTokensMax: body.max_tokens,
    stop: filledStops(body.stop_sequences),
    json: readJsonWish(body),
    reasoning: readReasoningWish(body),
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      topK: body.top_k ?? undefined,
    },
    user: body.metadata?.user_id ?? null,
    stream: body.stream === true,
    choices: 1,
    foreign: foreign.list,
    unheard: foreign.unheard,
  };
}

function readTools({ tools }: MessagesBody, foreign: ForeignNames): readonly Tool[] {
  return (tools ?? []).flatMap((tool, at) => {
    if (isCustom(tool)) return [readTool(tool, foreign)];
    // The managed search finds the tool that it replaces by this name.
    foreign.add(`tools[${at}]`);
    return [];
  });
}

const toolFields = new Set(['type', 'name', 'description', 'input_schema', 'strict']);

function readTool(tool: CustomTool, foreign: ForeignNames): Tool {
  for (const name of Object.keys(tool)) {
    if (!toolFields.has(name) && name !== 'cache_control') foreign.add(`tools.${name}`);
  }
  const { name, description, input_schema: parameters, strict } = tool;
  return {
    name,
    parameters: { ...parameters },
    description: description || undefined,
    strict: strict ?? undefined,
    ...cacheMark(tool),
  };
}

function readToolChoice(choice: MessagesBody['tool_choice']): ToolChoice | null {
  if (!choice) return null;
  if (choice.type === 'tool') return { name: choice.name };
  return choice.type === 'any' ? 'required' : choice.type;
}

function readParallel(choice: MessagesBody['tool_choice']): boolean | null {
  if (!choice || choice.type === 'none') return null;
  const { disable_parallel_tool_use: disabled } = choice;
  return disabled === undefined || disabled === null ? null : !disabled;
}

function readJsonWish(body: MessagesBody): JsonWish | null {
  const format = formatOf(body);
  return format ? { schema: { ...format.schema }, name: 'response' } : null;
}

function readReasoningWish(body: MessagesBody): ReasoningWish | null {
  const { thinking } = body;
  const effort = body.output_config?.effort ?? null;
  if (!thinking) return effort ? { effort, budgetTokens: null, visible: true } : null;
  if (thinking.type === 'disabled') return { effort: 'none', budgetTokens: null, visible: true };
  const budgetTokens = thinking.type === 'enabled' ? thinking.budget_tokens : null;
  return { effort, budgetTokens, visible: thinking.display !== 'omitted' };
}
