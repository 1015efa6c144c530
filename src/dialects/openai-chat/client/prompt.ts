import { fieldsOf, isNonEmptyString, objectsIn } from '../../../core/json.ts';
import type {
  AssistantPart,
  Prompt,
  ReasoningOptions,
  ReasoningPart,
  TextPart,
  Tool,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import {
  nonEmptyStops,
  readJsonFormat,
  unknownReasoningFields,
} from '../../normalize/requests/generation-options.ts';
import { dataUrlOf, readDataUrl } from '../../normalize/requests/inline-data.ts';
import {
  cacheBreakpoint,
  keepLastBreakpoints,
  tenantCacheKey,
} from '../../normalize/requests/prompt-cache.ts';
import { isSearchTool } from '../../normalize/requests/search-options.ts';
import { unknownFields } from '../../normalize/requests/unknown-fields.ts';
import { prefixEncrypted } from '../../normalize/signature.ts';
import { googleSignature } from '../tool-calls.ts';
import { messageNamePaths } from '../upstream/messages.ts';
import { generatedImageUrls, type OpenAiRequest } from './request.ts';
import { type ChatBody, chatSchema, type FunctionTool, type ToolCall } from './schema.ts';
import {
  functionIn,
  functionToolFields,
  isFunction,
  type ToolMessage,
  toTools,
} from './tool-formats.ts';

/** Converts an OpenAI client's request for upstreams of other dialects. */
export function readPrompt(request: OpenAiRequest): Prompt {
  const { body: parsedBody, source, tenantId = null, unsupported = [] } = request;
  const body = toTools(withExactNumbers(parsedBody, source));
  const { tools, tool_choice: choice } = functionToolFields(body);
  const format = body.response_format;
  const jsonSchema = format?.type === 'json_schema' ? format.json_schema : undefined;
  const { top_k: topK } = fieldsOf(body);
  const thinking = readThinking(body);
  const unknownNames = Object.keys(
    unknownFields(body, thinking ? { ...knownFields, thinking } : knownFields),
  );
  return keepLastBreakpoints({
    turns: readTurns(body.messages),
    tools: (tools ?? []).filter(isFunction).map(readTool),
    toolChoice: typeof choice === 'object' && choice ? { name: choice.function.name } : choice,
    parallelTools: body.parallel_tool_calls ?? null,
    outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? null,
    stop: nonEmptyStops(body.stop),
    json: readJsonFormat(format?.type, jsonSchema),
    reasoning: readReasoningOptions(body) ?? thinking,
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
    promptCacheKey: tenantCacheKey(tenantId, body.prompt_cache_key),
    ...cacheBreakpoint(body),
    stream: body.stream === true,
    choices: body.n ?? 1,
    unsupported: [
      ...searchesIn(body.tools),
      ...unknownNames,
      ...unrepresentableIn(body.messages),
      ...unsupportedReasoningFields(body),
      ...unsupported,
    ],
  });
}

/** Returns the paths of search tools, which aren't sent to upstreams of other dialects. */
function searchesIn(tools: ChatBody['tools']): readonly string[] {
  return (tools ?? []).flatMap((tool, index) => (isSearchTool(tool) ? [`tools[${index}]`] : []));
}

/** Returns the paths that other dialects can't represent: message names and generated images. */
function unrepresentableIn(messages: readonly ToolMessage[]): readonly string[] {
  const images = generatedImageUrls(messages).length > 0 ? ['messages.images'] : [];
  return [...images, ...messageNamePaths(messages)];
}

const reasoningFields = { effort: 0, budget_tokens: 0, max_tokens: 0, enabled: 0, exclude: 0 };

/** Returns the fields of `reasoning` that aren't sent to any upstream. */
export function unsupportedReasoningFields({
  reasoning,
}: Pick<ChatBody, 'reasoning'>): readonly string[] {
  return reasoning ? [...unknownReasoningFields(reasoning, reasoningFields)] : [];
}

/** Fields that are part of the prompt or handled by the gateway. All others are vendor-specific. */
const knownFields = { ...chatSchema.properties, top_k: null, cache_control: null };

function readTool(tool: FunctionTool): Tool {
  const { name, description, parameters, strict } = tool.function;
  return {
    name,
    parameters: parameters ? { ...parameters } : null,
    description: description || undefined,
    strict: strict ?? undefined,
    ...cacheBreakpoint(tool.function),
    ...cacheBreakpoint(tool),
  };
}

export function readReasoningOptions({
  reasoning,
  reasoning_effort: topLevelEffort,
}: Pick<ChatBody, 'reasoning' | 'reasoning_effort'>): ReasoningOptions | null {
  // Clients send the effort in either of these fields.
  const effort =
    topLevelEffort ?? reasoning?.effort ?? (reasoning?.enabled === false ? 'none' : null);
  if (effort === null && !reasoning) return null;
  return {
    effort,
    budgetTokens: reasoning?.budget_tokens ?? reasoning?.max_tokens ?? null,
    ...(reasoning?.enabled ? { isAdaptive: true } : {}),
    visible: reasoning?.exclude !== true,
  };
}

/** Reads Anthropic's `thinking`, which LiteLLM's clients send in chat requests. */
function readThinking(body: object): ReasoningOptions | null {
  const { type, budget_tokens: budget } = fieldsOf(fieldsOf(body).thinking);
  if (type === 'disabled') return { effort: 'none', budgetTokens: null, visible: true };
  if (type !== 'enabled' && type !== 'adaptive') return null;
  const isCounted = typeof budget === 'number' && Number.isSafeInteger(budget) && budget > 0;
  const isAdaptive = type === 'adaptive';
  return { effort: null, budgetTokens: isCounted ? budget : null, isAdaptive, visible: true };
}

type MessageOf<R extends ToolMessage['role']> = Extract<ToolMessage, { role: R }>;

export function readTurns(messages: readonly ToolMessage[]): readonly Turn[] {
  const turns: Turn[] = [];
  let results: ToolResultPart[] = [];
  const endResults = (userParts?: readonly UserPart[]) => {
    if (userParts || results.length > 0)
      turns.push({ role: 'user', parts: [...results, ...(userParts ?? [])] });
    results = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      results.push(readToolResult(message));
      continue;
    }
    // A user message after tool results belongs to the same turn.
    endResults(
      message.role === 'user' ? withBreakpoint(message, readUserParts(message)) : undefined,
    );
    if (message.role === 'assistant') {
      turns.push({ role: 'assistant', parts: withBreakpoint(message, readAssistant(message)) });
    } else if (message.role !== 'user') {
      turns.push({ role: 'system', parts: withBreakpoint(message, readTexts(message.content)) });
    }
  }
  endResults();
  return turns;
}

/**
 * Moves a message's cache breakpoint to its last part that can have one, unless that part has its
 * own.
 */
function withBreakpoint<P extends UserPart | AssistantPart>(message: object, parts: readonly P[]) {
  const breakpoint = cacheBreakpoint(message);
  if (breakpoint.cacheControl === undefined) return parts;
  const at = parts.findLastIndex(({ kind }) => !withoutCacheControl.has(kind));
  return parts.map((part, index) => (index === at ? { ...breakpoint, ...part } : part));
}

const withoutCacheControl: ReadonlySet<string> = new Set(['audio', 'reasoning', 'refusal']);

function readTexts(content: string | readonly { text: string }[]): readonly TextPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  return content.map(readText);
}

function readText(part: { text: string }): TextPart {
  return { kind: 'text', text: part.text, ...cacheBreakpoint(part) };
}

function readUserParts({ content }: MessageOf<'user'>): readonly UserPart[] {
  if (typeof content === 'string') return readTexts(content);
  return content.map(readUserPart);
}

type UserContent = Exclude<MessageOf<'user'>['content'], string>[number];

function readUserPart(part: UserContent): UserPart {
  switch (part.type) {
    case 'text':
      return readText(part);
    case 'image_url': {
      const { url, detail } = part.image_url;
      // LiteLLM's clients send a PDF as an image.
      const isPdf = readDataUrl(url)?.mediaType === 'application/pdf';
      if (isPdf) return { kind: 'document', source: { url }, ...cacheBreakpoint(part) };
      return { kind: 'image', url, detail: detail || undefined, ...cacheBreakpoint(part) };
    }
    case 'input_audio':
      return { kind: 'audio', data: part.input_audio.data, format: part.input_audio.format };
    case 'file': {
      const { file_data: data, file_id: id, filename } = part.file;
      const source = data ? { url: dataUrlOf(data) } : { fileId: id ?? '' };
      return { kind: 'document', source, name: filename || undefined, ...cacheBreakpoint(part) };
    }
  }
}

/**
 * Moves the first cache breakpoint of a tool result's parts to the result itself, because a request
 * may have only 4 breakpoints.
 */
function readToolResult(message: MessageOf<'tool'>): ToolResultPart {
  const { content, tool_call_id: callId } = message;
  const isPlainText = typeof content === 'string';
  const parts = isPlainText ? readTexts(content) : content.map(readToolResultPart);
  const sources = isPlainText ? [message] : [message, ...content];
  const breakpoint = sources.map(cacheBreakpoint).find(({ cacheControl }) => cacheControl);
  return { kind: 'tool_result', callId, parts, isError: false, ...breakpoint };
}

function readToolResultPart(part: Exclude<MessageOf<'tool'>['content'], string>[number]) {
  if (part.type === 'text') return { kind: 'text' as const, text: part.text };
  return { kind: 'image' as const, url: part.image_url.url };
}

function readAssistant(message: MessageOf<'assistant'>): readonly AssistantPart[] {
  const { content, refusal } = message;
  const contentParts =
    typeof content === 'string' ? readTexts(content) : (content ?? []).map(readContentPart);
  const reasoning = readReasoning(message);
  const signedBlocks = new Map(reasoning.map((block) => [block.signature, block]));
  const calls = (message.tool_calls ?? []).flatMap((call) => readCall(call, signedBlocks));
  const callSignatures = new Set(
    calls.flatMap((part) => (part.kind === 'reasoning' ? part.signature : [])),
  );
  // If a signature is also on a call, the reasoning block with that signature belongs to the call.
  const blocks = reasoning.filter(({ signature }) => !callSignatures.has(signature));
  // If an answer has signed calls and no content, a signature that isn't on any call arrived after
  // the calls.
  const isAfterCalls = ({ text, signature }: ReasoningPart) =>
    callSignatures.size > 0 && contentParts.length === 0 && text === '' && signature !== undefined;
  return [
    ...blocks.filter((block) => !isAfterCalls(block)),
    ...contentParts,
    ...(refusal ? [{ kind: 'refusal' as const, text: refusal }] : []),
    ...calls,
    ...blocks.filter(isAfterCalls),
  ];
}

type AssistantContent = Exclude<NonNullable<MessageOf<'assistant'>['content']>, string>[number];

function readContentPart(part: AssistantContent): AssistantPart {
  return part.type === 'refusal' ? { kind: 'refusal', text: part.refusal } : readText(part);
}

/** Returns a call, preceded by the block with the same signature, or by the signature alone. */
function readCall(
  call: ToolCall,
  signedBlocks: Map<string | undefined, ReasoningPart>,
): AssistantPart[] {
  const { name, arguments: json } = functionIn(call);
  const callFields = { id: call.id, name, arguments: json };
  const read: AssistantPart = { kind: 'tool_call', ...callFields, ...cacheBreakpoint(call) };
  const signature = googleSignature(call);
  if (signature === undefined) return [read];
  const signedBlock = signedBlocks.get(signature);
  // Use each block only once: repeating a long one before every call with its signature could
  // exhaust memory.
  signedBlocks.delete(signature);
  return [signedBlock ?? { kind: 'reasoning', text: '', signature }, read];
}

/**
 * Reads reasoning blocks from `reasoning_details`, where a streamed block may still be split into
 * its deltas. If a client sends no details, reads the plain text instead.
 */
function readReasoning(message: MessageOf<'assistant'>): readonly ReasoningPart[] {
  const { reasoning_details: details } = message as { reasoning_details?: unknown };
  const blocks = new Map<unknown, ReasoningPart>();
  const entries = objectsIn(details);
  for (const [i, entry] of entries.entries()) {
    const index = entry.index ?? i;
    const { signature, data } = entry;
    const before = blocks.get(index) ?? { kind: 'reasoning', text: '' };
    const text = [entry.text, entry.summary].find(isNonEmptyString) ?? '';
    blocks.set(index, {
      ...before,
      text: before.text + text,
      ...(isNonEmptyString(signature) ? { signature } : {}),
      ...(entry.type === 'reasoning.encrypted' && typeof data === 'string'
        ? { redacted: prefixEncrypted(entry.format, data) }
        : {}),
    });
  }
  if (blocks.size > 0) return [...blocks.values()];
  const text = message.reasoning ?? message.reasoning_content;
  return text ? [{ kind: 'reasoning', text }] : [];
}
