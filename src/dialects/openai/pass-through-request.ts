import type { Quirks } from '../../config/provider-schema.ts';
import { keepCachesApart } from '../ask/account/cache-names.ts';
import { leaveOutPricedApart, withoutPaidTools } from '../ask/account/priced-apart.ts';
import { type Edits, editBody, leaveOutOf, ourWords } from '../ask/body/edit-body.ts';
import { leaveOutLookalikes } from '../ask/body/unknown-fields.ts';
import { effortOf, effortWord, levelOf, refusesSampling } from '../ask/effort.ts';
import { jsonInstruction, unlessCalling } from '../ask/json-wish.ts';
import { outputLimit } from '../ask/output-limit.ts';
import { filledStops } from '../ask/stops.ts';
import { isForced } from '../ask/tools/tool-choice.ts';
import { listsOfTools, withDependents } from '../ask/tools/tool-fields.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { refuses } from '../parameters.ts';
import type { ChatRequest, Worded } from './chat-request.ts';
import { chatSchema } from './chat-schema.ts';
import { readReasoningWish, unheardIn } from './dialogue.ts';
import { mendMessages, speakerNames, withoutNamedParts } from './mend-messages.ts';
import { inFunctions } from './newer-tools.ts';
import { withoutMarks } from './without-marks.ts';

type Body = ChatRequest['body'] & Record<string, unknown>;

/** Fields that are the gateway's own, or that each upstream gets in words of its own. */
const replaced: ReadonlySet<string> = new Set([
  ...ourWords,
  'input',
  'instructions',
  'reasoning',
  'reasoning_effort',
  'usage',
]);

const sampling = [
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'top_logprobs',
];

/** An OpenAI client's request for an OpenAI-style upstream: the same words, edited as needed. */
export function passChat(given: Worded, target: Target): UpstreamRequest {
  const { quirks } = target;
  const refusesMarks = quirks.drop_params?.includes('cache_control') ?? false;
  const request = refusesMarks ? withoutMarks(given) : given;
  const body: Body = quirks.newer_tools === 'keep' ? request.body : inFunctions(request);
  const edits: Edits = { model: target.upstreamModel };
  if (body !== request.body) {
    edits.tools = body.tools;
    edits.tool_choice = body.tool_choice;
    edits.messages = body.messages;
  }
  leaveOutOf(body, replaced, edits, chatSchema.properties);
  leaveOutLookalikes(body, chatSchema.properties, edits);
  limitOutput(body, target, edits);
  askForUsage(body, quirks, edits);
  const isSilenced = mustNotReason(body, quirks);
  const isUnsampled = !isSilenced && setEffort(body, target, edits);
  if (isSilenced) edits.thinking = { type: 'disabled' };
  spellToolChoice(body, quirks, edits);
  leaveOutEmptyLists(body, edits);
  leaveOutEmptyStops(body, edits);
  const instruction = spellFormat(body, quirks, edits);
  const named = target.isOwnAccount ? body.messages : withoutNamedParts(body.messages);
  const all = instruction ? [{ role: 'system' as const, content: instruction }, ...named] : named;
  const messages = mendMessages(all, quirks, target.images);
  if (messages !== body.messages) edits.messages = messages;
  keepCachesApart(body, request.tenantId ?? null, edits);
  const { drop_params: refusedAlways = none } = quirks;
  const refused: readonly string[] = isUnsampled ? [...refusedAlways, ...sampling] : refusedAlways;
  if (refused.length > 0) leaveOut(withDependents(refused), body, edits);
  rename(body, quirks, edits);
  // A wish in Anthropic's `thinking` is passed on as it is, so it is not unheard.
  const isUnheard = edits.reasoning_effort === undefined && (isSilenced || !body.thinking);
  const dropped = [
    ...(request.unsaid ?? none),
    ...unheardIn(body),
    ...(isUnheard && wantsReasoning(body) ? ['reasoning'] : none),
    ...(request === given ? none : ['cache_control']),
    ...(quirks.message_names === 'drop' ? speakerNames(body.messages) : none),
    ...refused.filter((name) => (body[name] ?? null) !== null),
    ...leaveOutPricedApart(body, target, edits),
    ...leaveOutPaidTools(body, target, edits),
  ];
  return {
    path: '/chat/completions',
    body: editBody(request, edits),
    dropped: [...new Set(dropped)],
  };
}

const anyObject = {
  type: 'json_schema',
  json_schema: { name: 'answer', schema: { type: 'object' } },
};

function spellToolChoice(body: Body, quirks: Quirks, edits: Edits): void {
  const { tools, tool_choice: choice } = body;
  const must = quirks.tool_choice_required ?? 'required';
  if (choice === 'required' && must === 'any') edits.tool_choice = must;
  if (quirks.tool_choice_named !== 'alone' || typeof choice !== 'object') return;
  if (choice?.type !== 'function') return;
  const only = tools?.filter(
    (tool) => 'function' in tool && tool.function.name === choice.function.name,
  );
  if (!only?.length) return;
  edits.tools = only;
  edits.tool_choice = must;
}

/** Clients send an empty list for one that was not filled in; OpenAI and DeepSeek refuse it. */
function leaveOutEmptyLists(body: Body, edits: Edits): void {
  for (const names of listsOfTools) {
    const list = body[names[0]];
    if (Array.isArray(list) && list.length === 0) leaveOut(names, body, edits);
  }
}

function leaveOutEmptyStops({ stop }: Body, edits: Edits): void {
  if (stop === undefined || stop === null) return;
  const filled = filledStops(stop);
  if (filled.length === 0) edits.stop = undefined;
  else if (filled.length < stop.length && typeof stop !== 'string') edits.stop = filled;
}

function leaveOut(names: Iterable<string>, body: Body, edits: Edits): void {
  for (const name of names) if (name in body) edits[name] = undefined;
}

function leaveOutPaidTools(body: Body, target: Target, edits: Edits): readonly string[] {
  const isLeftOut = 'tools' in edits && edits.tools === undefined;
  if (!body.tools || isLeftOut) return none;
  const { tools, dropped } = withoutPaidTools(body.tools, target);
  if (dropped.length === 0) return none;
  if (tools.length > 0) edits.tools = tools;
  else leaveOut(listsOfTools[0], body, edits);
  return dropped;
}

function limitOutput(body: Body, target: Target, edits: Edits): void {
  const limit = outputLimit(body.max_completion_tokens ?? body.max_tokens ?? null, target);
  if (limit === null) return;
  const field =
    target.quirks.output_limit ??
    (body.max_completion_tokens ? 'max_completion_tokens' : 'max_tokens');
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  if (body[field] !== limit) edits[field] = limit;
  if (other in body) edits[other] = undefined;
}

/** Always ask for usage, whatever the client asked: the bill depends on it. */
function askForUsage(body: Body, quirks: Quirks, edits: Edits): void {
  if (body.stream !== true || quirks.stream_usage === 'always') {
    if ('stream_options' in body) edits.stream_options = undefined;
  } else if (body.stream_options?.include_usage !== true) {
    edits.stream_options = { ...body.stream_options, include_usage: true };
  }
}

/**
 * Whether a vendor that has a switch for reasoning is told not to reason: because the client says
 * so, or because the vendor can be forced to call a tool only then.
 */
function mustNotReason(body: Body, { reasoning_off: switchedBy }: Quirks): boolean {
  if (switchedBy !== 'thinking') return false;
  const mustCall = isForced(body.tool_choice) && Boolean(body.tools?.length);
  return mustCall || readReasoningWish(body)?.effort === 'none';
}

function wantsReasoning(body: Body): boolean {
  const effort = levelOf(readReasoningWish(body));
  return effort !== null && effort !== 'none';
}

/** Puts the format into the vendor's words; where the vendor has none, answers an instruction. */
function spellFormat(body: Body, quirks: Quirks, edits: Edits): string | undefined {
  const { response_format: format, tools } = body;
  if (!format || format.type === 'text') return undefined;
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined;
  if (quirks.json_with_tools === 'instruct' && tools?.length) {
    edits.response_format = undefined;
    return jsonInstruction(schema ?? null, unlessCalling);
  }
  if (format.type === 'json_object') {
    if (quirks.json_object === 'schema') edits.response_format = anyObject;
    return undefined;
  }
  if (quirks.json_schema !== 'instruct') return undefined;
  edits.response_format = { type: 'json_object' };
  return jsonInstruction(schema ?? {});
}

/**
 * Puts the effort into the vendor's words. True when the vendor refuses sampling parameters beside
 * it. A wish to reason without a level becomes the middle level only where the catalogue says that
 * the model reasons.
 */
function setEffort(body: Body, { quirks, reasons = true }: Target, edits: Edits): boolean {
  const wish = refuses(quirks, 'reasoning_effort') ? null : readReasoningWish(body);
  const word = effortWord(reasons ? levelOf(wish) : effortOf(wish), quirks);
  if (word !== undefined) edits.reasoning_effort = word;
  return refusesSampling(word, quirks);
}

const none: readonly never[] = [];

function rename(body: Body, quirks: Quirks, edits: Edits): void {
  if (quirks.rename_params === undefined) return;
  for (const [name, theirs] of Object.entries(quirks.rename_params)) {
    if (body[name] === undefined || body[name] === null) continue;
    edits[theirs] = name in edits ? edits[name] : body[name];
    edits[name] = undefined;
  }
}
