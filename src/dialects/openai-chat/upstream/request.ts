import type { Quirks } from '../../../config/provider-schema.ts';
import type { Edits, Target, UpstreamRequest } from '../../dialect.ts';
import { checkedNames } from '../../normalize/requests/checked-names.ts';
import { dropFields, editBody, gatewayFields } from '../../normalize/requests/edit-body.ts';
import {
  effortOf,
  jsonInstruction,
  levelOf,
  nonEmptyStops,
  outputLimit,
  rejectsSampling,
  unlessCallingTools,
  vendorEffort,
} from '../../normalize/requests/generation-options.ts';
import { isolateCaches } from '../../normalize/requests/prompt-cache.ts';
import {
  dropSurcharged,
  withoutPaidTools,
} from '../../normalize/requests/restricted-parameters.ts';
import { isForced, listsOfTools, withDependents } from '../../normalize/requests/tools.ts';
import { dropsParameter } from '../../normalize/requests/vendor-parameters.ts';
import { readReasoningOptions, unsupportedReasoningFields } from '../client/prompt.ts';
import type { ChatRequest, OpenAiRequest } from '../client/request.ts';
import { chatSchema } from '../client/schema.ts';
import { toFunctionTools, withParameters } from '../client/tool-formats.ts';
import {
  messageNamePaths,
  normalizeMessages,
  withoutCacheBreakpoints,
  withoutPartUuids,
} from './messages.ts';

type Body = ChatRequest['body'] & Record<string, unknown>;

const names = checkedNames(chatSchema);

/** Fields that only the gateway uses, or that are rewritten in each upstream's format. */
const replaced: ReadonlySet<string> = new Set([
  ...gatewayFields,
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

/** Passes an OpenAI client's request to an OpenAI-style upstream, edited as needed. */
export function passChat(original: OpenAiRequest, target: Target): UpstreamRequest {
  const { quirks } = target;
  const dropsBreakpoints = quirks.drop_params?.includes('cache_control') ?? false;
  const request = dropsBreakpoints ? withoutCacheBreakpoints(original) : original;
  const functions = quirks.newer_tools === 'keep' ? request.body : toFunctionTools(request);
  const body: Body = withParameters(functions, request);
  const edits: Edits = { model: target.upstreamModel };
  for (const name of ['tools', 'tool_choice', 'messages'] as const) {
    if (body[name] !== request.body[name]) edits[name] = body[name];
  }
  dropFields(body, replaced, edits, chatSchema.properties);
  limitOutput(body, target, edits);
  requestUsage(body, quirks, edits);
  const isReasoningOff = mustNotReason(body, quirks);
  const isUnsampled = !isReasoningOff && setEffort(body, target, edits);
  if (isReasoningOff) edits.thinking = { type: 'disabled' };
  writeToolChoice(body, quirks, edits);
  dropEmptyLists(body, edits);
  dropEmptyStops(body, edits);
  const instruction = writeFormat(body, quirks, edits);
  const named = target.isOwnAccount ? body.messages : withoutPartUuids(body.messages);
  const all = instruction ? [{ role: 'system' as const, content: instruction }, ...named] : named;
  const messages = normalizeMessages(all, quirks, target.images);
  if (messages !== body.messages) edits.messages = messages;
  isolateCaches(body, request.tenantId ?? null, target, edits);
  const { drop_params: unsupported = none } = quirks;
  const droppedNames: readonly string[] = isUnsampled ? [...unsupported, ...sampling] : unsupported;
  if (droppedNames.length > 0) dropNames(withDependents(droppedNames), body, edits);
  rename(body, quirks, edits);
  // Anthropic's `thinking` is forwarded unchanged, so a request that has it keeps its reasoning
  // options.
  const isReasoningDropped =
    edits.reasoning_effort === undefined && (isReasoningOff || !body.thinking);
  const dropped = [
    ...(request.unsupported ?? none),
    ...unsupportedReasoningFields(body),
    ...(isReasoningDropped && requestsReasoning(body) ? ['reasoning'] : none),
    ...(request === original ? none : ['cache_control']),
    ...(quirks.message_names === 'drop' ? messageNamePaths(body.messages) : none),
    ...droppedNames.filter((name) => (body[name] ?? null) !== null),
    ...dropSurcharged(body, target, edits),
    ...dropPaidTools(body, target, edits),
  ];
  return {
    path: '/chat/completions',
    body: editBody({ body: request.body, source: request.source, checkedNames: names }, edits),
    dropped: [...new Set(dropped)],
  };
}

const anyObject = {
  type: 'json_schema',
  json_schema: { name: 'answer', schema: { type: 'object' } },
};

function writeToolChoice(body: Body, quirks: Quirks, edits: Edits): void {
  const { tools, tool_choice: choice } = body;
  const requiredName = quirks.tool_choice_required ?? 'required';
  if (choice === 'required' && requiredName === 'any') edits.tool_choice = requiredName;
  if (quirks.tool_choice_named !== 'only_tool' || typeof choice !== 'object') return;
  if (choice?.type !== 'function') return;
  const only = tools?.filter(
    (tool) => 'function' in tool && tool.function.name === choice.function.name,
  );
  if (!only?.length) return;
  edits.tools = only;
  edits.tool_choice = requiredName;
}

/** Drops empty lists of tools, which OpenAI and DeepSeek reject. */
function dropEmptyLists(body: Body, edits: Edits): void {
  for (const names of listsOfTools) {
    const list = body[names[0]];
    if (Array.isArray(list) && list.length === 0) dropNames(names, body, edits);
  }
}

function dropEmptyStops({ stop }: Body, edits: Edits): void {
  if (stop === undefined || stop === null) return;
  const filled = nonEmptyStops(stop);
  if (filled.length === 0) edits.stop = undefined;
  else if (filled.length < stop.length && typeof stop !== 'string') edits.stop = filled;
}

function dropNames(names: Iterable<string>, body: Body, edits: Edits): void {
  for (const name of names) if (name in body) edits[name] = undefined;
}

function dropPaidTools(body: Body, target: Target, edits: Edits): readonly string[] {
  const isDropped = 'tools' in edits && edits.tools === undefined;
  if (!body.tools || isDropped) return none;
  const { tools, dropped } = withoutPaidTools(body.tools, target);
  if (dropped.length === 0) return none;
  if (tools.length > 0) edits.tools = tools;
  else dropNames(listsOfTools[0], body, edits);
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

/** Always requests usage, even if the client doesn't, because the charge depends on it. */
function requestUsage(body: Body, quirks: Quirks, edits: Edits): void {
  if (body.stream !== true || quirks.stream_usage === 'always') {
    if ('stream_options' in body) edits.stream_options = undefined;
  } else if (body.stream_options?.include_usage !== true) {
    edits.stream_options = { ...body.stream_options, include_usage: true };
  }
}

/**
 * True if reasoning must be turned off with the vendor's `thinking` field. Either the client turns
 * it off, or the client forces a tool call, which these models support only without reasoning.
 */
function mustNotReason(body: Body, { reasoning_off: switchedBy }: Quirks): boolean {
  if (switchedBy !== 'thinking') return false;
  const mustCall = isForced(body.tool_choice) && Boolean(body.tools?.length);
  return mustCall || readReasoningOptions(body)?.effort === 'none';
}

function requestsReasoning(body: Body): boolean {
  const effort = levelOf(readReasoningOptions(body));
  return effort !== null && effort !== 'none';
}

/**
 * Writes the vendor's response format. If the vendor doesn't support the requested format, returns
 * an instruction for the model.
 */
function writeFormat(body: Body, quirks: Quirks, edits: Edits): string | undefined {
  const { response_format: format, tools } = body;
  if (!format || format.type === 'text') return undefined;
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined;
  if (quirks.json_with_tools === 'instruct' && tools?.length) {
    edits.response_format = undefined;
    return jsonInstruction(schema ?? null, unlessCallingTools);
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
 * Writes the vendor's reasoning effort. Returns true if the vendor rejects sampling parameters with
 * this effort. If the client requests reasoning without a level, medium effort is sent only if the
 * catalog says that the model reasons.
 */
function setEffort(body: Body, { quirks, isReasoningModel = true }: Target, edits: Edits): boolean {
  const options = dropsParameter(quirks, 'reasoning_effort') ? null : readReasoningOptions(body);
  const vendorValue = vendorEffort(isReasoningModel ? levelOf(options) : effortOf(options), quirks);
  if (vendorValue !== undefined) edits.reasoning_effort = vendorValue;
  return rejectsSampling(vendorValue, quirks);
}

const none: readonly never[] = [];

function rename(body: Body, quirks: Quirks, edits: Edits): void {
  if (quirks.rename_params === undefined) return;
  for (const [name, vendorName] of Object.entries(quirks.rename_params)) {
    if (body[name] === undefined || body[name] === null) continue;
    edits[vendorName] = name in edits ? edits[name] : body[name];
    edits[name] = undefined;
  }
}
