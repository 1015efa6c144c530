/** A Responses client's request in our own words, for upstreams that speak differently. */
import type { Dialogue, ReasoningWish, Tool, ToolChoice } from '../../core/dialogue.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { unknownFields } from '../ask/body/unknown-fields.ts';
import { cacheMark, withLastMarks } from '../ask/cache-marks.ts';
import { otherWishes } from '../ask/effort.ts';
import { ForeignNames } from '../ask/foreign-names.ts';
import { readJsonWish } from '../ask/json-wish.ts';
import type { ResponsesRequest } from './request.ts';
import { encryptedThoughts, type ResponsesBody, responsesSchema } from './request-schema.ts';
import { ToolForms } from './tool-forms.ts';
import { readTurns } from './turns.ts';

type Given = Pick<ResponsesRequest, 'body' | 'source'>;

export function readDialogue({ body: given, source }: Given): Dialogue {
  const body = exactWords(given, source);
  const foreign = new ForeignNames();
  nameForeign(body, foreign);
  const format = body.text?.format;
  const turns = readTurns(body, foreign);
  const { tools } = new ToolForms(body, foreign);
  return withLastMarks({
    turns,
    ...readChoice(body.tool_choice, tools, foreign),
    parallelTools: body.parallel_tool_calls ?? null,
    outputTokensMax: body.max_output_tokens ?? null,
    stop: [],
    json: readJsonWish(format?.type, format?.type === 'json_schema' ? format : undefined),
    reasoning: readReasoningWish(body),
    sampling: { temperature: body.temperature ?? undefined, topP: body.top_p ?? undefined },
    user: body.user ?? body.safety_identifier ?? null,
    ...cacheMark(body),
    stream: body.stream === true,
    choices: 1,
    foreign: foreign.list,
    unheard: foreign.unheard,
  });
}

/** `cache_control` is Anthropic's, but clients may send it here, too. */
const known = { ...responsesSchema.properties, cache_control: null };

/** Names wishes that a dialogue cannot express, unless they only ask for the default. */
function nameForeign(body: ResponsesBody, foreign: ForeignNames): void {
  for (const name in unknownFields(body, known)) foreign.add(name);
  for (const name of ownWishes(body)) foreign.add(name);
  for (const name of otherWishes(body.reasoning, { effort: 0, summary: 0 })) foreign.add(name);
  if (body.prompt_cache_key) foreign.add('prompt_cache_key');
  if (!['', 'auto', 'default'].includes(body.service_tier ?? '')) foreign.add('service_tier');
  if (body.top_logprobs) foreign.add('top_logprobs');
}

type OwnWishes = Pick<ResponsesBody, 'include' | 'max_tool_calls' | 'text' | 'truncation'>;

/** Wishes that only the Responses endpoint has fields for, and chats do not. */
export function* ownWishes(body: OwnWishes): Iterable<string> {
  if (body.include?.some((name) => name !== encryptedThoughts)) yield 'include';
  if (body.max_tool_calls) yield 'max_tool_calls';
  if ((body.text?.verbosity ?? 'medium') !== 'medium') yield 'text.verbosity';
  if (body.truncation === 'auto') yield 'truncation';
}

type Choice = Pick<Dialogue, 'tools' | 'toolChoice'>;

function readChoice(
  choice: ResponsesBody['tool_choice'],
  tools: readonly Tool[],
  foreign: ForeignNames,
): Choice {
  if (choice === null || choice === undefined || typeof choice === 'string') {
    return { tools, toolChoice: choice ?? null };
  }
  const { type, name, mode, tools: allowed } = choice;
  if (type === 'allowed_tools') {
    const names = new Set((allowed ?? []).map((tool) => tool.name));
    const toolChoice: ToolChoice = mode ?? 'auto';
    return { tools: tools.filter((tool) => names.has(tool.name)), toolChoice };
  }
  const isOwn = (type === 'function' || type === 'custom') && name;
  if (isOwn) return { tools, toolChoice: { name } };
  foreign.add('tool_choice');
  return { tools, toolChoice: null };
}

/** Thoughts are shown to clients that ask for a summary of them. */
function readReasoningWish({ reasoning }: ResponsesBody): ReasoningWish | null {
  if (!reasoning) return null;
  const { effort = null, summary = null } = reasoning;
  if (effort === null && summary === null) return null;
  return { effort, budgetTokens: null, visible: summary !== null };
}
