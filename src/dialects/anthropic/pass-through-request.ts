/** An Anthropic client's request for an upstream of that kind: the same words, edited as needed. */
import { fieldsOf } from '../../core/json.ts';
import { leaveOutPricedApart, withoutPaidTools } from '../ask/account/priced-apart.ts';
import { type Edits, editBody, leaveOutOf, ourWords } from '../ask/body/edit-body.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { leaveOutLookalikes } from '../ask/body/unknown-fields.ts';
import { outputLimit } from '../ask/output-limit.ts';
import { filledStops } from '../ask/stops.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { generationOf } from './generation.ts';
import { spokenIn, systemOf, unsaidIn } from './hoist-system.ts';
import { messagesAt, type VersionHeaders } from './hosts.ts';
import { mendMessages } from './mend-messages.ts';
import type { MessagesRequest } from './messages-request.ts';
import { countSchema, type Messages } from './messages-schema.ts';
import { type AnyTool, withoutAdded } from './tool-changes.ts';

type Body = MessagesRequest['body'] & Record<string, unknown>;

export function passMessages(
  request: MessagesRequest,
  version: VersionHeaders,
  target: Target,
): UpstreamRequest {
  const { source } = request;
  const body: Body = request.body;
  const { path, headers, fields } = messagesAt(target, body.stream === true, version);
  const edits: Edits = { ...fields };
  leaveOutOf(body, ourWords, edits, countSchema.properties);
  leaveOutLookalikes(body, countSchema.properties, edits);
  const limit = Math.min(outputLimit(body.max_tokens, target) ?? body.max_tokens, body.max_tokens);
  if (limit !== body.max_tokens) edits.max_tokens = limit;
  const spoken = spokenIn(body.messages, target.quirks);
  const system = systemOf(body, spoken);
  if (system !== body.system) edits.system = system;
  leaveOutEmptyStops(body, edits);
  const dropped = [
    ...leaveOutRefused(body, target, edits),
    ...((headers['anthropic-beta'] ?? '') === version.betas ? [] : ['anthropic-beta']),
    ...leaveOutPricedApart(body, target, edits),
    ...leaveOutEffort(request, target, edits),
  ];
  const paid = leaveOutPaidTools(body, target, edits);
  const { messages, lostThoughts, lost } = mend(spoken, target, paid.lost);
  dropped.push(...paid.dropped, ...lost, ...unsaidIn(body.messages, spoken));
  if (messages !== body.messages) {
    const exact = spokenIn(exactWords(request.body, source).messages, target.quirks);
    edits.messages = exact === spoken ? messages : mend(exact, target, paid.lost).messages;
  }
  const { thinking } = body;
  // Thinking by budget is refused if the thoughts behind the latest calls are missing, or if the
  // budget is not below the output limit. A client's own limit that is too low stays its mistake.
  const isCrowded = thinking?.type === 'enabled' && thinking.budget_tokens >= limit;
  if (thinking?.type === 'enabled' && (lostThoughts || (isCrowded && limit < body.max_tokens))) {
    edits.thinking = undefined;
    dropped.push('thinking');
  }
  return { path, headers, body: editBody({ body, source }, edits), dropped };
}

function leaveOutEmptyStops({ stop_sequences: given }: Body, edits: Edits): void {
  const stops = filledStops(given);
  if (stops.length === (given?.length ?? 0)) return;
  edits.stop_sequences = stops.length > 0 ? stops : undefined;
}

/** Leaves out the parameters that the quirks name; a choice that forces a call becomes `auto`. */
function leaveOutRefused(body: Body, { quirks }: Target, edits: Edits): readonly string[] {
  const { tool_choice: choice } = body;
  const isDemand = choice?.type === 'any' || choice?.type === 'tool';
  const dropped = (quirks.drop_params ?? []).filter((name) =>
    name === 'tool_choice' ? isDemand : (body[name] ?? null) !== null,
  );
  for (const name of dropped) {
    const left = name === 'tool_choice' ? { ...choice, type: 'auto', name: undefined } : undefined;
    edits[name] = left;
  }
  // Anthropic refuses a tool choice without tools.
  if (dropped.includes('tools')) edits.tool_choice = undefined;
  return dropped;
}

/** A model that thinks by budget refuses an effort, unless it is known to take efforts as well. */
function leaveOutEffort(
  { body, source }: MessagesRequest,
  { thinking, quirks, upstreamModel }: Target,
  edits: Edits,
): readonly string[] {
  const hasEffort = (body.output_config?.effort ?? null) !== null;
  const named = generationOf(upstreamModel);
  const efforts = quirks.efforts ?? (named?.thinking === thinking ? named?.efforts : undefined);
  const isRefused = thinking === 'budget' && !efforts;
  if (!hasEffort || !isRefused || 'output_config' in edits) return [];
  const { effort: _, ...config } = exactWords(body, source).output_config ?? {};
  edits.output_config = Object.keys(config).length > 0 ? config : undefined;
  return ['output_config.effort'];
}

/** The messages as they are sent, and the names of what was left out of them. */
function mend(messages: Messages, target: Target, lost: readonly AnyTool[]) {
  const isPaid = (tool: AnyTool) => withoutPaidTools([tool], target).lost.length > 0;
  const gone = lost.map(({ name }) => name);
  const { messages: left, dropped } = withoutAdded(messages, isPaid, gone);
  const mended = mendMessages(left, target.images);
  return { ...mended, lost: mended.lostPictures ? [...dropped, 'messages.image'] : dropped };
}

function leaveOutPaidTools(
  { tools: given, tool_choice: choice }: Body,
  target: Target,
  edits: Edits,
) {
  if ('tools' in edits) return { lost: [], dropped: [] };
  const { tools, lost, dropped } = withoutPaidTools(given ?? [], target);
  if (lost.length === 0) return { lost, dropped };
  const gone = new Set<unknown>(lost.map(({ type }) => type));
  const kept = tools.map((tool) => withoutCallers(tool, gone));
  edits.tools = kept.length > 0 ? kept : undefined;
  // Anthropic refuses a tool choice without tools, or of a tool that is not there.
  const isLost = choice?.type === 'tool' && lost.some(({ name }) => name === choice.name);
  if (tools.length === 0 || isLost) edits.tool_choice = undefined;
  const changed = tools.filter((tool, at) => tool !== kept[at]);
  const places = changed.map((tool) => `tools[${given?.indexOf(tool)}].allowed_callers`);
  return { lost, dropped: [...dropped, ...places] };
}

/** Anthropic refuses a tool with a missing caller; without `allowed_callers` any may call it. */
function withoutCallers(tool: AnyTool, gone: ReadonlySet<unknown>): AnyTool {
  const { allowed_callers: callers } = fieldsOf(tool);
  if (!Array.isArray(callers)) return tool;
  const left = callers.filter((caller) => !gone.has(caller));
  if (left.length === callers.length) return tool;
  const changed = { ...tool, allowed_callers: left.length > 0 ? left : undefined };
  return changed;
}
