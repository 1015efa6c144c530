import type {
  AssistantPart,
  Cacheable,
  DocumentPart,
  ImagePart,
  Prompt,
  ReasoningOptions,
  TextPart,
  Tool,
  ToolChoice,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import {
  readJsonFormat,
  unknownReasoningFields,
} from '../../normalize/requests/generation-options.ts';
import { dataUrlOf } from '../../normalize/requests/inline-data.ts';
import {
  cacheBreakpoint,
  keepLastBreakpoints,
  tenantCacheKey,
} from '../../normalize/requests/prompt-cache.ts';
import { freeFormArguments } from '../../normalize/requests/tools.ts';
import { unknownFields } from '../../normalize/requests/unknown-fields.ts';
import { textPartsOf, UnsupportedNames } from '../../normalize/requests/unsupported.ts';
import { readSignature } from '../reasoning-signature.ts';
import {
  type AnyItem,
  type AnyPart,
  type Item,
  type ItemOf,
  isKnownItem,
  isKnownPart,
  isMessage,
  isResult,
  isTextPart,
  orphanResultAsMessage,
  type Part,
  type ResultItem,
  typeOf,
} from './input-items.ts';
import type { ResponsesRequest } from './request.ts';
import { encryptedReasoning, type ResponsesBody, responsesSchema } from './schema.ts';
import { isGatewaySearch, searchSources } from './searches.ts';
import {
  ClientTools,
  flatName,
  foundNames,
  isSearchCall,
  isSearchOutput,
  toolSearchName,
} from './tools.ts';

type PromptSource = Pick<ResponsesRequest, 'body' | 'source'> &
  Partial<Pick<ResponsesRequest, 'tenantId'>>;

/** Converts a Responses client's request for upstreams of other dialects. */
export function readPrompt({ body: parsedBody, source, tenantId = null }: PromptSource): Prompt {
  const body = withExactNumbers(parsedBody, source);
  const unsupported = new UnsupportedNames();
  addUnsupportedNames(body, unsupported);
  const format = body.text?.format;
  const turns = readTurns(body, unsupported);
  const { tools } = new ClientTools(body, unsupported);
  return keepLastBreakpoints({
    turns,
    ...readChoice(body.tool_choice, tools, unsupported),
    parallelTools: body.parallel_tool_calls ?? null,
    outputTokensMax: body.max_output_tokens ?? null,
    stop: [],
    json: readJsonFormat(format?.type, format?.type === 'json_schema' ? format : undefined),
    reasoning: readReasoningOptions(body),
    sampling: { temperature: body.temperature ?? undefined, topP: body.top_p ?? undefined },
    user: body.user ?? body.safety_identifier ?? null,
    promptCacheKey: tenantCacheKey(tenantId, body.prompt_cache_key),
    ...cacheBreakpoint(body),
    stream: body.stream === true,
    choices: 1,
    unsupported: unsupported.list,
    unsupportedPart: unsupported.unsupportedPart,
  });
}

/** `cache_control` is Anthropic's, but clients may also send it here. */
const knownFields = { ...responsesSchema.properties, cache_control: null };

/** Adds the fields that a prompt can't represent, unless they have default values. */
function addUnsupportedNames(body: ResponsesBody, unsupported: UnsupportedNames): void {
  for (const name in unknownFields(body, knownFields)) unsupported.add(name);
  for (const name of responsesOnlyFields(body)) unsupported.add(name);
  for (const name of unknownReasoningFields(body.reasoning, { effort: 0, summary: 0 }))
    unsupported.add(name);
  if (!['', 'auto', 'default'].includes(body.service_tier ?? '')) unsupported.add('service_tier');
  if (body.top_logprobs) unsupported.add('top_logprobs');
}

type ResponsesOnlyFields = Pick<
  ResponsesBody,
  'include' | 'max_tool_calls' | 'text' | 'truncation'
>;

/** Returns requested features that only the Responses endpoint has. */
export function* responsesOnlyFields(body: ResponsesOnlyFields): Iterable<string> {
  if (body.include?.some((name) => name !== encryptedReasoning && name !== searchSources))
    yield 'include';
  if (body.max_tool_calls) yield 'max_tool_calls';
  if ((body.text?.verbosity ?? 'medium') !== 'medium') yield 'text.verbosity';
  if (body.truncation === 'auto') yield 'truncation';
}

type Choice = Pick<Prompt, 'tools' | 'toolChoice'>;

function readChoice(
  choice: ResponsesBody['tool_choice'],
  tools: readonly Tool[],
  unsupported: UnsupportedNames,
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
  const isNamed = (type === 'function' || type === 'custom') && name;
  if (isNamed) return { tools, toolChoice: { name } };
  unsupported.add('tool_choice');
  return { tools, toolChoice: null };
}

/** Reasoning is visible to clients that request a summary. */
function readReasoningOptions({ reasoning }: ResponsesBody): ReasoningOptions | null {
  if (!reasoning) return null;
  const { effort = null, summary = null } = reasoning;
  if (effort === null && summary === null) return null;
  return { effort, budgetTokens: null, visible: summary !== null };
}

function readTurns(
  { instructions, input }: Pick<ResponsesBody, 'instructions' | 'input'>,
  unsupported: UnsupportedNames,
): readonly Turn[] {
  const turns = new TurnBuilder();
  if (instructions) turns.addSystem([{ kind: 'text', text: instructions }]);
  if (typeof input === 'string') turns.addUser([{ kind: 'text', text: input }]);
  else for (const [index, item] of input.entries()) readItem(item, index, turns, unsupported);
  const read = turns.end();
  if (typeof input !== 'string') {
    unsupported.noteUnsupported(input, ({ type }) => !compactions.has(type), 'input');
    if (read.every(({ role }) => role === 'system'))
      unsupported.noteUnsupported(input, isKnownItem, 'input');
  }
  return read;
}

/**
 * Items with OpenAI's summary of a long conversation, which no other provider can read, or with the
 * request for such a summary. A request with one of these items isn't sent to other upstreams.
 * Without the summary, the upstream would lack the conversation. Without the request for a summary,
 * the client would get an answer instead.
 */
const compactions: ReadonlySet<unknown> = new Set([
  'compaction',
  'compaction_summary',
  'context_compaction',
  'compaction_trigger',
]);

/**
 * Groups consecutive items with the same role into a turn. Tool results come before user content.
 */
class TurnBuilder {
  readonly #turns: Turn[] = [];
  #assistantParts: AssistantPart[] = [];
  #results: ToolResultPart[] = [];

  addSystem(parts: readonly TextPart[]): void {
    this.#close();
    this.#turns.push({ role: 'system', parts });
  }

  addUser(parts: readonly UserPart[]): void {
    this.#endAnswer();
    this.#turns.push({ role: 'user', parts: [...this.#results, ...parts] });
    this.#results = [];
  }

  addResult(part: ToolResultPart): void {
    this.#endAnswer();
    this.#results.push(part);
  }

  addAssistant(parts: readonly AssistantPart[]): void {
    this.#endResults();
    for (const part of parts) this.#assistantParts.push(part);
  }

  /**
   * Starts a new turn for another assistant message, because its text would otherwise be joined to
   * the previous message's. If tool calls precede the message, it stays in their turn, because
   * nothing may come between calls and their results.
   */
  addAssistantMessage(parts: readonly AssistantPart[]): void {
    const before = this.#assistantParts;
    const end = before.findLastIndex(({ kind }) => kind === 'text' || kind === 'refusal') + 1;
    if (end > 0 && !before.some(({ kind }) => kind === 'tool_call')) {
      const reasoning = before.splice(end);
      this.#endAnswer();
      this.#assistantParts = reasoning;
    }
    this.addAssistant(parts);
  }

  end(): readonly Turn[] {
    this.#close();
    return this.#turns;
  }

  #close(): void {
    this.#endAnswer();
    this.#endResults();
  }

  #endAnswer(): void {
    if (this.#assistantParts.length > 0) {
      this.#turns.push({ role: 'assistant', parts: this.#assistantParts });
    }
    this.#assistantParts = [];
  }

  #endResults(): void {
    if (this.#results.length > 0) this.#turns.push({ role: 'user', parts: this.#results });
    this.#results = [];
  }
}

function readItem(
  rawItem: AnyItem,
  at: number,
  turns: TurnBuilder,
  unsupported: UnsupportedNames,
): void {
  const item = orphanResultAsMessage(rawItem);
  // `ClientTools` reads these tools together with the request's other tools.
  if (item.type === 'additional_tools' || isGatewaySearch(item)) return;
  if (isSearchCall.Check(item)) {
    const { call_id: id, arguments: rawArguments } = item;
    const json =
      typeof rawArguments === 'string' ? rawArguments : JSON.stringify(rawArguments ?? {});
    turns.addAssistant([{ kind: 'tool_call', id, name: toolSearchName, arguments: json }]);
  } else if (isSearchOutput.Check(item)) {
    const parts = [{ kind: 'text', text: foundNames(item.tools) }] as const;
    turns.addResult({ kind: 'tool_result', callId: item.call_id, parts, isError: false });
  } else if (!isKnownItem(item)) unsupported.add(`input.${typeOf(item)}`);
  else if (isMessage(item)) readMessage(item, at, turns, unsupported);
  else if (isResult(item)) turns.addResult(readResult(item, unsupported));
  else turns.addAssistant([readReasoningOrCall(item)]);
}

function readMessage(
  item: ItemOf<'message'>,
  at: number,
  turns: TurnBuilder,
  unsupported: UnsupportedNames,
): void {
  const { role, content } = item;
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  if (role === 'user') {
    const userParts = parts.flatMap((part) => readUserPart(part, unsupported));
    if (userParts.length === 0)
      unsupported.noteUnsupported(parts, isTextPart, `input[${at}].content`);
    turns.addUser(userParts);
  } else if (role === 'assistant')
    turns.addAssistantMessage(parts.flatMap((part) => readAnswer(part, unsupported)));
  else
    turns.addSystem(parts.flatMap((part) => withBreakpoint(readTextOnly(part, unsupported), part)));
}

/** Adds the cache breakpoint of the client's part, if it has one. */
function withBreakpoint<Read extends Cacheable>(
  read: readonly Read[],
  part: AnyPart,
): readonly Read[] {
  return read.map((readPart) => ({ ...readPart, ...cacheBreakpoint(part) }));
}

type ReasoningOrCall = Exclude<Item, ItemOf<'message'> | ResultItem>;

function readReasoningOrCall(item: ReasoningOrCall): AssistantPart {
  switch (item.type) {
    case 'reasoning': {
      const texts = item.summary?.length ? item.summary : (item.content ?? []);
      const text = texts.map((part) => part.text).join('\n\n');
      return { kind: 'reasoning', text, ...readSignature(item) };
    }
    case 'function_call':
      return readCall(item, item.arguments);
    case 'custom_tool_call':
      return readCall(item, freeFormArguments(item.input));
  }
}

function readCall(
  item: ItemOf<'function_call'> | ItemOf<'custom_tool_call'>,
  json: string,
): AssistantPart {
  const name = flatName(item.name, item.namespace);
  return { kind: 'tool_call', id: item.call_id, name, arguments: json };
}

function readResult(item: ResultItem, unsupported: UnsupportedNames): ToolResultPart {
  const { call_id: callId, output } = item;
  const parts: ToolResultPart['parts'] =
    typeof output === 'string'
      ? [{ kind: 'text', text: output }]
      : output.flatMap((part) => readToolResultPart(part, unsupported));
  const contentParts = typeof output === 'string' ? [] : output;
  const breakpoint = contentParts.map(cacheBreakpoint).find(({ cacheControl }) => cacheControl);
  return { kind: 'tool_result', callId, parts, isError: false, ...breakpoint };
}

function readUserPart(part: AnyPart, unsupported: UnsupportedNames): readonly UserPart[] {
  if (isKnownPart(part) && part.type === 'input_audio') {
    const { data, format } = part.input_audio;
    return [{ kind: 'audio', data, format }];
  }
  return withBreakpoint(readToolResultPart(part, unsupported), part);
}

function readToolResultPart(
  part: AnyPart,
  unsupported: UnsupportedNames,
): readonly (TextPart | ImagePart | DocumentPart)[] {
  if (!isKnownPart(part)) {
    unsupported.add(`input.${part.type}`);
    return textPartsOf(part);
  }
  switch (part.type) {
    case 'input_image': {
      const { image_url: url, detail } = part;
      if (!url) return dropped('input_image.file_id', unsupported);
      return [{ kind: 'image', url, detail: detail || undefined }];
    }
    case 'input_file':
      return readFile(part);
    default:
      return readTextOnly(part, unsupported);
  }
}

function readFile(part: Extract<Part, { type: 'input_file' }>): readonly DocumentPart[] {
  const { file_data: data, file_url: url, file_id: fileId, filename } = part;
  const sourceUrl = data ? dataUrlOf(data) : url;
  const source = sourceUrl ? { url: sourceUrl } : { fileId: fileId ?? '' };
  return [{ kind: 'document', source, name: filename || undefined }];
}

function readAnswer(part: AnyPart, unsupported: UnsupportedNames): readonly AssistantPart[] {
  if (isKnownPart(part) && part.type === 'refusal') {
    return [{ kind: 'refusal', text: part.refusal }];
  }
  return readTextOnly(part, unsupported);
}

function readTextOnly(part: AnyPart, unsupported: UnsupportedNames): readonly TextPart[] {
  if (!isTextPart(part)) return dropped(part.type, unsupported);
  return part.text === '' ? [] : [{ kind: 'text', text: part.text }];
}

/** Drops an item or part and records its type, which is reported to the client. */
function dropped(type: string, unsupported: UnsupportedNames): readonly [] {
  unsupported.add(`input.${type}`);
  return [];
}
