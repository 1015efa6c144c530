/** An Anthropic client's request in our own words, for upstreams that speak differently. */
import type { Dialogue, JsonWish, ReasoningWish, Tool, ToolChoice } from '../../core/dialogue.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { unknownFields } from '../ask/body/unknown-fields.ts';
import { cacheMark } from '../ask/cache-marks.ts';
import { ForeignNames } from '../ask/foreign-names.ts';
import { filledStops } from '../ask/stops.ts';
import type { AnyBlock } from './blocks.ts';
import { formatOf, isCustom, type MessagesRequest } from './messages-request.ts';
import { type CustomTool, type MessagesBody, messagesSchema } from './messages-schema.ts';
import { addedTool, changesIn } from './tool-changes.ts';
import { readTurns } from './turns.ts';

type Given = Pick<MessagesRequest, 'body' | 'source'>;

export function readDialogue({ body: given, source }: Given): Dialogue {
  const body = exactWords(given, source);
  const foreign = new ForeignNames();
  for (const name of wishesIn(body)) foreign.add(name);
  const turns = readTurns(body, foreign);
  const tools = readTools(body, foreign);
  return {
    turns,
    tools,
    toolChoice: readToolChoice(body.tool_choice),
    parallelTools: readParallel(body.tool_choice),
    // Only Anthropic takes 0, which fills its cache without an answer.
    outputTokensMax: Math.max(1, body.max_tokens),
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

/** Wishes that only Anthropic can grant: fields unknown to us, at the top or inside known ones. */
function* wishesIn(body: MessagesBody): Iterable<string> {
  yield* Object.keys(unknownFields(body, messagesSchema.properties));
  for (const name in unknownFields(body.output_config ?? {}, granted))
    yield `output_config.${name}`;
  for (const message of body.messages) {
    if (message.role !== 'system') continue;
    for (const name in unknownFields(message, said)) yield `messages.${name}`;
  }
}

const granted = { effort: 0, format: 0 };
const said = { role: 0, content: 0 };

/** The tools of a request, and those that its messages add; other dialects have a single list. */
function readTools(body: MessagesBody, foreign: ForeignNames): readonly Tool[] {
  const tools = (body.tools ?? []).flatMap((tool, at) => {
    if (isCustom(tool)) return [readTool(tool, foreign)];
    // The managed search replaces a tool of the client, which it finds by this path.
    foreign.add(`tools[${at}]`);
    return [];
  });
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  for (const { role, content } of body.messages) {
    if (!Array.isArray(content)) continue;
    const isTold = ({ type }: AnyBlock) => role === 'system' || type === 'compaction';
    for (const tool of content.filter(isTold).flatMap(changesIn).map(addedTool)) {
      if (tool && isCustom(tool)) byName.set(tool.name, readTool(tool, foreign));
    }
  }
  return [...byName.values()];
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
  // Other dialects have no such mode: nearest is low, the least effort of always thinking models.
  if (thinking.type === 'between_tools') {
    return { effort: effort ?? 'low', budgetTokens: null, visible: true };
  }
  const budgetTokens = thinking.type === 'enabled' ? thinking.budget_tokens : null;
  const isAdaptive = thinking.type === 'adaptive';
  return { effort, budgetTokens, isAdaptive, visible: thinking.display !== 'omitted' };
}
