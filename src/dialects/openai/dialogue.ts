/** An OpenAI client's request in our own words, for upstreams that speak differently. */
import type { Dialogue, ReasoningWish, Tool } from '../../core/dialogue.ts';
import { fieldsOf } from '../../core/json.ts';
import { cacheNameWithin } from '../ask/account/cache-names.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { unknownFields } from '../ask/body/unknown-fields.ts';
import { cacheMark, withLastMarks } from '../ask/cache-marks.ts';
import { otherWishes } from '../ask/effort.ts';
import { readJsonWish } from '../ask/json-wish.ts';
import { isSearchTool } from '../ask/search-wish.ts';
import { filledStops } from '../ask/stops.ts';
import type { Worded } from './chat-request.ts';
import { type ChatBody, chatSchema, type FunctionTool } from './chat-schema.ts';
import { inTools, type ToolMessage } from './functions.ts';
import { madePictures } from './made-pictures.ts';
import { speakerNames } from './mend-messages.ts';
import { isFunction, toolsInFunctions } from './newer-tools.ts';
import { readTurns } from './turns.ts';

export function readDialogue(request: Worded): Dialogue {
  const { body: given, source, tenantId = null, unsaid = [] } = request;
  const body = inTools(exactWords(given, source));
  const { tools, tool_choice: choice } = toolsInFunctions(body);
  const format = body.response_format;
  const schemed = format?.type === 'json_schema' ? format.json_schema : undefined;
  const { top_k: topK } = fieldsOf(body);
  const thinking = readThinking(body);
  const foreign = Object.keys(unknownFields(body, thinking ? { ...known, thinking } : known));
  return withLastMarks({
    turns: readTurns(body.messages),
    tools: (tools ?? []).filter(isFunction).map(readTool),
    toolChoice: typeof choice === 'object' && choice ? { name: choice.function.name } : choice,
    parallelTools: body.parallel_tool_calls ?? null,
    outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? null,
    stop: filledStops(body.stop),
    json: readJsonWish(format?.type, schemed),
    reasoning: readReasoningWish(body) ?? thinking,
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      topK: typeof topK === 'number' ? topK : undefined,
      seed: body.seed ?? undefined,
      presencePenalty: body.presence_penalty ?? undefined,
      frequencyPenalty: body.frequency_penalty ?? undefined,
      logprobs: body.logprobs ?? undefined,
      topLogprobs: body.top_logprobs ?? undefined,
      logitBias: body.logit_bias ?? undefined,
    },
    user: body.user ?? body.safety_identifier ?? null,
    verbosity: body.verbosity ?? undefined,
    promptCacheKey: cacheNameWithin(tenantId, body.prompt_cache_key),
    ...cacheMark(body),
    stream: body.stream === true,
    choices: body.n ?? 1,
    foreign: [
      ...searchesIn(body.tools),
      ...foreign,
      ...unseenIn(body.messages),
      ...unheardIn(body),
      ...unsaid,
    ],
  });
}

/** The places of search tools, of which no other dialect is told. */
function searchesIn(tools: ChatBody['tools']): readonly string[] {
  return (tools ?? []).flatMap((tool, at) => (isSearchTool(tool) ? [`tools[${at}]`] : []));
}

/** What other dialects have no place for: names of speakers, and pictures that a model made. */
function unseenIn(messages: readonly ToolMessage[]): readonly string[] {
  const pictures = madePictures(messages).length > 0 ? ['messages.images'] : [];
  return [...pictures, ...speakerNames(messages)];
}

const reasoningFields = { effort: 0, budget_tokens: 0, max_tokens: 0, enabled: 0, exclude: 0 };

/** The fields of `reasoning` that no upstream is told of. */
export function unheardIn({ reasoning }: Pick<ChatBody, 'reasoning'>): readonly string[] {
  return reasoning ? [...otherWishes(reasoning, reasoningFields)] : [];
}

/** Fields of the schema have words of ours or are the gateway's; all others are other vendors'. */
const known = { ...chatSchema.properties, top_k: null, cache_control: null };

function readTool(tool: FunctionTool): Tool {
  const { name, description, parameters, strict } = tool.function;
  return {
    name,
    parameters: parameters ? { ...parameters } : null,
    description: description || undefined,
    strict: strict ?? undefined,
    ...cacheMark(tool.function),
    ...cacheMark(tool),
  };
}

export function readReasoningWish({
  reasoning,
  reasoning_effort: beside,
}: Pick<ChatBody, 'reasoning' | 'reasoning_effort'>): ReasoningWish | null {
  // Clients name the effort in either of these places.
  const effort = beside ?? reasoning?.effort ?? (reasoning?.enabled === false ? 'none' : null);
  if (effort === null && !reasoning) return null;
  return {
    effort,
    budgetTokens: reasoning?.budget_tokens ?? reasoning?.max_tokens ?? null,
    ...(reasoning?.enabled ? { isAdaptive: true } : {}),
    visible: reasoning?.exclude !== true,
  };
}

/** The same wish in Anthropic's `thinking`, which clients of LiteLLM put into a chat. */
function readThinking(body: object): ReasoningWish | null {
  const { type, budget_tokens: budget } = fieldsOf(fieldsOf(body).thinking);
  if (type === 'disabled') return { effort: 'none', budgetTokens: null, visible: true };
  if (type !== 'enabled' && type !== 'adaptive') return null;
  const isCounted = typeof budget === 'number' && Number.isSafeInteger(budget) && budget > 0;
  const isAdaptive = type === 'adaptive';
  return { effort: null, budgetTokens: isCounted ? budget : null, isAdaptive, visible: true };
}
