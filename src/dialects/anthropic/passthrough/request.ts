import type { Quirks } from '../../../config/provider-schema.ts';
import { fieldsOf, itemsOf } from '../../../core/json.ts';
import type { Edits, FetchedImages, RawBody, Target, UpstreamRequest } from '../../dialect.ts';
import {
  dropFields,
  editBody,
  gatewayFields,
  sameIfUnchanged,
} from '../../normalize/requests/edit-body.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import { nonEmptyStops, outputLimit } from '../../normalize/requests/generation-options.ts';
import {
  dropSurcharged,
  withoutPaidTools,
} from '../../normalize/requests/restricted-parameters.ts';
import { plainCallId } from '../../normalize/requests/tool-identifiers.ts';
import { noParameters } from '../../normalize/requests/tool-schema.ts';
import { isAnthropicRedacted, ownSignature } from '../../normalize/signature.ts';
import { withNeededBetas } from '../betas.ts';
import { isCustom, type MessagesRequest } from '../client/request.ts';
import {
  type AnyBlock,
  blocksIn,
  type CountBody,
  countSchema,
  isGeneratedImage,
  isKnown,
  type Messages,
  type MessagesBody,
  messagesNames,
} from '../client/schema.ts';
import { isGatewaySearch } from '../client/searches.ts';
import { type AnyTool, withoutExcludedTools } from '../client/tool-changes.ts';
import { messagesEndpoint, type VersionHeaders } from '../hosts.ts';
import { budgetWithin, generationOf } from '../upstream/parameters.ts';
import { imageSource } from '../upstream/request.ts';

// Forwards an Anthropic client's request to an Anthropic-style upstream, edited as needed.

type Body = MessagesRequest['body'] & Record<string, unknown>;

export function passMessages(
  request: MessagesRequest,
  version: VersionHeaders,
  target: Target,
): UpstreamRequest {
  const { source } = request;
  const body: Body = withSchemas(request.body, source);
  const isStream = body.stream === true;
  const { path, headers, fields } = messagesEndpoint(target, isStream, version);
  const edits: Edits = { ...fields };
  dropFields(body, gatewayFields, edits, countSchema.properties);
  const limit = Math.min(outputLimit(body.max_tokens, target) ?? body.max_tokens, body.max_tokens);
  if (limit !== body.max_tokens) edits.max_tokens = limit;
  const remaining = withoutHoistedInstructions(body.messages, target.quirks);
  const system = systemOf(body, remaining);
  if (system !== body.system) edits.system = system;
  dropEmptyStops(body, edits);
  const dropped = [
    ...dropRejected(body, target, edits),
    ...((headers['anthropic-beta'] ?? '') === version.betas ? [] : ['anthropic-beta']),
    ...dropSurcharged(body, target, edits),
    ...dropEffort(request, target, edits),
  ];
  const paid = dropPaidTools(body, target, edits);
  if (body !== request.body && !('tools' in edits)) edits.tools = body.tools;
  const { messages, lostThinking, lost } = prepareMessages(remaining, target, paid.lost);
  dropped.push(...paid.dropped, ...lost, ...droppedByHoisting(body.messages, remaining));
  if (messages !== body.messages) {
    const exact = withoutHoistedInstructions(
      withExactNumbers(request.body, source).messages,
      target.quirks,
    );
    edits.messages =
      exact === remaining ? messages : prepareMessages(exact, target, paid.lost).messages;
  }
  dropped.push(...fitThinking(body, limit, lostThinking, edits));
  const edited = editBody({ body, source, checkedNames: messagesNames }, edits);
  const needed = withNeededBetas(version, { ...body, ...edits });
  const sent = needed === version ? headers : messagesEndpoint(target, isStream, needed).headers;
  return { path, headers: sent, body: edited, dropped };
}

/**
 * Drops a thinking budget if the thinking that led to the latest calls is missing, because
 * Anthropic rejects it. Lowers a budget that isn't below the lowered output limit. If the client's
 * own limit is too low, lets the upstream reject it.
 */
function fitThinking(
  { thinking, max_tokens: requestedLimit }: Body,
  limit: number,
  lostThinking: boolean,
  edits: Edits,
): readonly string[] {
  if (thinking?.type !== 'enabled') return [];
  const isTooLarge = thinking.budget_tokens >= limit && limit < requestedLimit;
  if (!lostThinking && !isTooLarge) return [];
  const tokens = lostThinking ? undefined : budgetWithin(thinking.budget_tokens, limit);
  edits.thinking = tokens === undefined ? undefined : { ...thinking, budget_tokens: tokens };
  return tokens === undefined ? ['thinking'] : [];
}

/**
 * Adds a schema to tools that the client sent without one, because Anthropic requires it. Returns
 * the same body if no tool lacks it.
 */
export function withSchemas<Sent extends CountBody>(body: Sent, source: RawBody | null): Sent {
  if (!body.tools?.some(lacksSchema)) return body;
  const tools = (withExactNumbers(body, source).tools ?? []).map((tool) => {
    const completed = { ...tool, input_schema: noParameters() };
    return lacksSchema(tool) ? completed : tool;
  });
  return { ...body, tools };
}

function lacksSchema(tool: AnyTool): boolean {
  return isCustom(tool) && !tool.input_schema;
}

function dropEmptyStops({ stop_sequences: sequences }: Body, edits: Edits): void {
  const stops = nonEmptyStops(sequences);
  if (stops.length === (sequences?.length ?? 0)) return;
  edits.stop_sequences = stops.length > 0 ? stops : undefined;
}

/**
 * Drops the parameters in the quirk `drop_params`. If `tool_choice` is one of them, a forced choice
 * becomes `auto`.
 */
function dropRejected(body: Body, { quirks }: Target, edits: Edits): readonly string[] {
  const { tool_choice: choice } = body;
  const isForcedChoice = choice?.type === 'any' || choice?.type === 'tool';
  const dropped = (quirks.drop_params ?? []).filter((name) =>
    name === 'tool_choice' ? isForcedChoice : (body[name] ?? null) !== null,
  );
  for (const name of dropped) {
    const replacement =
      name === 'tool_choice' ? { ...choice, type: 'auto', name: undefined } : undefined;
    edits[name] = replacement;
  }
  // Anthropic rejects a tool choice without tools.
  if (dropped.includes('tools')) edits.tool_choice = undefined;
  return dropped;
}

/** Drops the effort for models with a thinking budget, unless they also accept effort levels. */
function dropEffort(
  { body, source }: MessagesRequest,
  { thinking, quirks, upstreamModel }: Target,
  edits: Edits,
): readonly string[] {
  const hasEffort = (body.output_config?.effort ?? null) !== null;
  const named = generationOf(upstreamModel);
  const efforts = quirks.efforts ?? (named?.thinking === thinking ? named?.efforts : undefined);
  const isRejected = thinking === 'budget' && !efforts;
  if (!hasEffort || !isRejected || 'output_config' in edits) return [];
  const { effort: _, ...config } = withExactNumbers(body, source).output_config ?? {};
  edits.output_config = Object.keys(config).length > 0 ? config : undefined;
  return ['output_config.effort'];
}

/** Returns the messages to send and the names of what was dropped from them. */
function prepareMessages(messages: Messages, target: Target, lost: readonly AnyTool[]) {
  const isPaid = (tool: AnyTool) => withoutPaidTools([tool], target).removed.length > 0;
  const removedNames = lost.map(({ name }) => name);
  const { messages: left, dropped } = withoutExcludedTools(messages, isPaid, removedNames);
  const normalized = normalizeMessages(left, target.images);
  return { ...normalized, lost: normalized.lostImages ? [...dropped, 'messages.image'] : dropped };
}

function dropPaidTools(
  { tools: requestedTools, tool_choice: choice }: Body,
  target: Target,
  edits: Edits,
) {
  if ('tools' in edits) return { lost: [], dropped: [] };
  const { tools, removed: lost, dropped } = withoutPaidTools(requestedTools ?? [], target);
  if (lost.length === 0) return { lost, dropped };
  const removedTypes = new Set<unknown>(lost.map(({ type }) => type));
  const remainingTools = tools.map((tool) => withoutCallers(tool, removedTypes));
  edits.tools = remainingTools.length > 0 ? remainingTools : undefined;
  // Anthropic rejects a tool choice without tools, or for a missing tool.
  const isLost = choice?.type === 'tool' && lost.some(({ name }) => name === choice.name);
  if (tools.length === 0 || isLost) edits.tool_choice = undefined;
  const changed = tools.filter((tool, index) => tool !== remainingTools[index]);
  const droppedPaths = changed.map(
    (tool) => `tools[${requestedTools?.indexOf(tool)}].allowed_callers`,
  );
  return { lost, dropped: [...dropped, ...droppedPaths] };
}

/** Drops removed tools from `allowed_callers`, because Anthropic rejects missing callers. */
function withoutCallers(tool: AnyTool, removedTypes: ReadonlySet<unknown>): AnyTool {
  const { allowed_callers: callers } = fieldsOf(tool);
  if (!Array.isArray(callers)) return tool;
  const left = callers.filter((caller) => !removedTypes.has(caller));
  if (left.length === callers.length) return tool;
  const changed = { ...tool, allowed_callers: left.length > 0 ? left : undefined };
  return changed;
}

// Conversations that started with another provider may contain content that Anthropic would reject.
// This code drops that content. If there's nothing to drop, it returns the same list.

interface NormalizedMessages {
  readonly messages: Messages;
  /** True if another provider's thinking was dropped. */
  readonly lostThinking: boolean;
  /** True if generated images were dropped. */
  readonly lostImages: boolean;
}

export function normalizeMessages(messages: Messages, images: FetchedImages): NormalizedMessages {
  let lostThinking = false;
  let lostImages = false;
  const normalized = messages.flatMap((message) => {
    const { content } = message;
    const isAssistant = message.role === 'assistant';
    if (!Array.isArray(content) && typeof content !== 'string') return [message];
    if (typeof content === 'string') return isAssistant && !isFilled(content) ? [] : [message];
    // Leave a user message of only blank text unchanged, so that Anthropic rejects it and the user
    // learns about the mistake.
    const dropsEmpty = isAssistant || !content.every(isEmpty);
    const remaining = content.filter((block) => !isGeneratedImage(block, message.role));
    const blocks = sameIfUnchanged(content, normalizeBlocks(remaining, dropsEmpty, images));
    if (blocks === content) return [message];
    lostImages ||= remaining.length < content.length;
    lostThinking ||= thinkingBlocksIn(blocks) < thinkingBlocksIn(content);
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  return { messages: sameIfUnchanged(messages, normalized), lostThinking, lostImages };
}

function isFilled(text: string): boolean {
  return text.trim() !== '';
}

function isEmpty(block: AnyBlock): boolean {
  return isKnown(block) && block.type === 'text' && !isFilled(block.text);
}

function thinkingBlocksIn(blocks: readonly AnyBlock[]): number {
  return blocks.filter(({ type }) => type.endsWith('thinking')).length;
}

function normalizeBlocks(
  blocks: AnyBlock[],
  dropsEmpty: boolean,
  images: FetchedImages,
): AnyBlock[] {
  return sameIfUnchanged(
    blocks,
    blocks.flatMap((block) => normalizeBlock(block, dropsEmpty, images)),
  );
}

function normalizeBlock(
  block: AnyBlock,
  dropsEmpty: boolean,
  images: FetchedImages,
): readonly AnyBlock[] {
  if (!isKnown(block)) return isGatewaySearch(block) ? [] : [block];
  switch (block.type) {
    case 'thinking':
      return ownSignature('anthropic', block.signature ?? undefined) === undefined ? [] : [block];
    case 'redacted_thinking':
      return isAnthropicRedacted(block.data) ? [block] : [];
    case 'text':
      return dropsEmpty && !isFilled(block.text) ? [] : [withoutForeignSources(block)];
    case 'tool_use': {
      const id = plainCallId(block.id);
      const normalized = { ...block, id };
      return id === block.id ? [block] : [normalized];
    }
    case 'tool_result': {
      const id = plainCallId(block.tool_use_id);
      const { content } = block;
      // A tool's result may be empty.
      const inner = Array.isArray(content) ? normalizeBlocks(content, true, images) : content;
      if (id === block.tool_use_id && inner === content) return [block];
      const normalized = {
        ...block,
        tool_use_id: id,
        content: inner?.length ? inner : undefined,
      };
      return [normalized];
    }
    case 'document': {
      const { source } = block;
      if (source.type !== 'content' || !Array.isArray(source.content)) return [block];
      const inner = normalizeBlocks(source.content, dropsEmpty, images);
      const normalized = { ...block, source: { ...source, content: inner } };
      return inner === source.content ? [block] : [normalized];
    }
    case 'image': {
      const fetched = block.source.type === 'url' ? images.get(block.source.url) : undefined;
      if (fetched === undefined) return [block];
      const inline = { ...block, source: imageSource(fetched) };
      return [inline];
    }
  }
}

/**
 * Drops citations from other search engines, because they lack the index that Anthropic requires.
 */
function withoutForeignSources(block: AnyBlock): AnyBlock {
  const cited = itemsOf(fieldsOf(block).citations);
  const remaining = cited.filter((source) => fieldsOf(source).encrypted_index !== '');
  if (remaining.length === cited.length) return block;
  const normalized = { ...block, citations: remaining.length > 0 ? remaining : undefined };
  return normalized;
}

// Claude Code sends instructions in the middle of a conversation. Anthropic's newer models accept
// them there. Anthropic's older models and other servers of this dialect accept them only in
// `system`.

const isInstruction = ({ role }: Messages[number]) => role === 'system';

/**
 * Removes the instructions that must go into `system`. If there are none, returns the same list.
 */
export function withoutHoistedInstructions(
  messages: Messages,
  { system_messages: placement }: Quirks,
): Messages {
  if (placement !== 'merge' || !messages.some(isInstruction)) return messages;
  return messages.filter((message) => !isInstruction(message));
}

type SystemAndMessages = Pick<MessagesBody, 'system' | 'messages'>;

/** Returns the `system` to send: the client's, then the instructions removed from the messages. */
export function systemOf(
  { system, messages }: SystemAndMessages,
  remaining: Messages,
): SystemAndMessages['system'] {
  if (remaining === messages) return withoutBlank(system);
  const instructions = messages
    .filter(isInstruction)
    .flatMap(({ content }) => textsIn(content ?? ''));
  const all = [...textsIn(system ?? ''), ...instructions];
  return all.length > 0 ? all : undefined;
}

/**
 * Returns the names of the blocks and fields that were dropped because `system` can't contain them,
 * such as `messages.tool_addition`.
 */
function droppedByHoisting(messages: Messages, remaining: Messages): readonly string[] {
  if (remaining === messages) return [];
  const names = messages.filter(isInstruction).flatMap(({ role: _, content, ...extraFields }) => {
    const types = blocksIn(content ?? '').map(({ type }) => type);
    return [...types.filter((type) => type !== 'text'), ...Object.keys(extraFields)];
  });
  return [...new Set(names)].map((name) => `messages.${name}`);
}

/** Drops blank text blocks, which Anthropic rejects. */
function withoutBlank(system: SystemAndMessages['system']): SystemAndMessages['system'] {
  if (typeof system === 'string') return system.trim() === '' ? undefined : system;
  const filled = system?.filter(hasText) ?? [];
  if (filled.length === system?.length) return system;
  return filled.length > 0 ? filled : undefined;
}

function hasText({ text }: { readonly text: string }): boolean {
  return text.trim() !== '';
}

function textsIn(content: string | readonly AnyBlock[]) {
  const texts = blocksIn(content).flatMap((block) =>
    isKnown(block) && block.type === 'text' ? [block] : [],
  );
  return texts.filter(hasText);
}
