import {
  definedFields,
  fieldsOf,
  isNonEmptyString,
  isObject,
  itemsOf,
  type JsonObject,
} from '../../../core/json.ts';
import type {
  AssistantPart,
  DocumentPart,
  ImagePart,
  JsonFormat,
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
import { nonEmptyStops } from '../../normalize/requests/generation-options.ts';
import { cacheBreakpoint } from '../../normalize/requests/prompt-cache.ts';
import { unknownFields } from '../../normalize/requests/unknown-fields.ts';
import { textPartsOf, UnsupportedNames } from '../../normalize/requests/unsupported.ts';
import {
  clientRunFields,
  definitionOf,
  type FunctionDefinition,
  isUnknownClientRunTool,
} from './client-run-tools.ts';
import { formatOf, isCustom, isFunction, type MessagesRequest } from './request.ts';
import {
  type AnyBlock,
  type BlockOf,
  blocksIn,
  type CustomTool,
  imageUrl,
  isKnown,
  type MessagesBody,
  messagesSchema,
} from './schema.ts';
import { isGatewaySearch } from './searches.ts';
import { type AnyTool, addedTool, changesIn } from './tool-changes.ts';

// Converts an Anthropic client's request to a neutral prompt.

type PromptSource = Pick<MessagesRequest, 'body' | 'source'>;

export function readPrompt({ body: parsedBody, source }: PromptSource): Prompt {
  const body = withExactNumbers(parsedBody, source);
  const unsupported = new UnsupportedNames();
  for (const name of unsupportedFields(body)) unsupported.add(name);
  const turns = readTurns(body, unsupported);
  const tools = readTools(body, unsupported);
  return {
    turns,
    tools,
    toolChoice: readToolChoice(body.tool_choice),
    parallelTools: readParallel(body.tool_choice),
    // Only Anthropic accepts 0, which fills the prompt cache without generating an answer.
    outputTokensMax: Math.max(1, body.max_tokens),
    stop: nonEmptyStops(body.stop_sequences),
    json: readJsonFormat(body),
    reasoning: readReasoningOptions(body),
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      topK: body.top_k ?? undefined,
    },
    user: body.metadata?.user_id ?? null,
    stream: body.stream === true,
    choices: 1,
    unsupported: unsupported.list,
    unsupportedPart: unsupported.unsupportedPart,
  };
}

/**
 * Yields the names of unknown fields, both top-level fields and fields inside known ones. Only
 * Anthropic may support them.
 */
function* unsupportedFields(body: MessagesBody): Iterable<string> {
  yield* Object.keys(unknownFields(body, messagesSchema.properties));
  for (const name in unknownFields(body.output_config ?? {}, outputConfigFields))
    yield `output_config.${name}`;
  for (const message of body.messages) {
    if (message.role !== 'system') continue;
    for (const name in unknownFields(message, messageFields)) yield `messages.${name}`;
  }
}

const outputConfigFields = { effort: 0, format: 0 };
const messageFields = { role: 0, content: 0 };

/** Reads the tools from `tools` and from the messages. Other dialects have a single list. */
function readTools(body: MessagesBody, unsupported: UnsupportedNames): readonly Tool[] {
  unsupported.noteUnsupported(body.tools ?? [], (tool) => !isUnknownClientRunTool(tool), 'tools');
  const tools = (body.tools ?? []).flatMap((tool, index) => {
    const readable = readTool(tool, unsupported);
    if (readable) return [readable];
    // If the gateway runs the search, it uses this path to find the client's search tool and
    // replace it.
    unsupported.add(`tools[${index}]`);
    return [];
  });
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  for (const [index, { role, content }] of body.messages.entries()) {
    if (!Array.isArray(content)) continue;
    const unknownTools = content.map((block) =>
      changesIn(block)
        .flatMap((change) => addedTool(change) ?? [])
        .find(isUnknownClientRunTool),
    );
    unsupported.noteUnsupported(
      unknownTools.map((tool) => tool ?? {}),
      ({ type }) => !type,
      `messages[${index}].content`,
    );
    const changesTools = ({ type }: AnyBlock) => role === 'system' || type === 'compaction';
    for (const tool of content.filter(changesTools).flatMap(changesIn).map(addedTool)) {
      const added = tool && readTool(tool, unsupported);
      if (added) byName.set(added.name, added);
    }
  }
  return [...byName.values()];
}

const toolFields = new Set(['type', 'name', 'description', 'input_schema', 'strict']);

/** Returns undefined for a tool that the provider runs. */
function readTool(tool: AnyTool, unsupported: UnsupportedNames): Tool | undefined {
  if (isCustom(tool)) return readFunction(tool, tool, unsupported);
  const definition = definitionOf(tool);
  if (!definition) return undefined;
  const fields = Object.entries(tool).filter(([name]) => !clientRunFields.has(name));
  return readFunction(definition, Object.fromEntries(fields), unsupported);
}

function readFunction(
  { name, description, input_schema: parameters }: CustomTool | FunctionDefinition,
  fields: Readonly<JsonObject>,
  unsupported: UnsupportedNames,
): Tool {
  for (const field of Object.keys(fields)) {
    if (!toolFields.has(field) && field !== 'cache_control') unsupported.add(`tools.${field}`);
  }
  return {
    name,
    parameters: { ...parameters },
    description: description || undefined,
    strict: typeof fields.strict === 'boolean' ? fields.strict : undefined,
    ...cacheBreakpoint(fields),
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

function readJsonFormat(body: MessagesBody): JsonFormat | null {
  const format = formatOf(body);
  if (!format) return null;
  const strict = meetsStrictRules(format.schema) ? true : undefined;
  return { schema: { ...format.schema }, name: 'response', ...definedFields({ strict }) };
}

/**
 * Returns true if OpenAI's strict mode accepts the schema's objects. Anthropic always enforces the
 * schema, but it also accepts optional properties, which strict mode rejects.
 */
function meetsStrictRules(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(meetsStrictRules);
  if (!isObject(schema)) return true;
  const { type, properties, required, additionalProperties } = schema;
  if (type === 'object' || isObject(properties)) {
    const names = new Set(itemsOf(required));
    const allRequired = Object.keys(fieldsOf(properties)).every((name) => names.has(name));
    if (!allRequired || additionalProperties !== false) return false;
  }
  return Object.values(schema).every(meetsStrictRules);
}

function readReasoningOptions(body: MessagesBody): ReasoningOptions | null {
  const { thinking } = body;
  const effort = body.output_config?.effort ?? null;
  if (!thinking) return effort ? { effort, budgetTokens: null, visible: true } : null;
  if (thinking.type === 'disabled') return { effort: 'none', budgetTokens: null, visible: true };
  // Other dialects lack this mode. `low` is the lowest effort of models that always think.
  if (thinking.type === 'between_tools') {
    return { effort: effort ?? 'low', budgetTokens: null, visible: true };
  }
  const budgetTokens = thinking.type === 'enabled' ? thinking.budget_tokens : null;
  const isAdaptive = thinking.type === 'adaptive';
  return { effort, budgetTokens, isAdaptive, visible: thinking.display !== 'omitted' };
}

// Converts messages to turns.

function readTurns({ system, messages }: MessagesBody, unsupported: UnsupportedNames): Turn[] {
  const turns: Turn[] = [];
  if (system) turns.push({ role: 'system', parts: blocksIn(system).flatMap(readText) });
  for (const [index, { role, content }] of messages.entries()) {
    const blocks = blocksIn(content ?? []);
    if (role === 'assistant') {
      turns.push({ role, parts: blocks.flatMap((block) => readAssistant(block, unsupported)) });
    } else if (role === 'user') {
      const parts = blocks.flatMap((block) => readUser(block, unsupported));
      if (parts.length === 0)
        unsupported.noteUnsupported(
          blocks,
          ({ type }) => type === 'text',
          `messages[${index}].content`,
        );
      turns.push({ role, parts: resultsFirst(parts) });
    } else {
      turns.push({ role, parts: blocks.flatMap((block) => readInstruction(block, unsupported)) });
    }
  }
  return turns;
}

/** Reads a block of instructions. Tools defined in blocks are read with the request's tools. */
function readInstruction(block: AnyBlock, unsupported: UnsupportedNames): readonly TextPart[] {
  if (block.type === 'text') return readText(block);
  const tool = addedTool(block);
  return tool && isFunction(tool) ? [] : omit(block, unsupported);
}

function readText(block: AnyBlock): readonly TextPart[] {
  if (!isKnown(block) || block.type !== 'text') return [];
  return [{ kind: 'text', text: block.text, ...cacheBreakpoint(block) }];
}

function resultsFirst(parts: readonly UserPart[]): readonly UserPart[] {
  const results = parts.filter((part) => part.kind === 'tool_result');
  if (results.length === 0) return parts;
  return [...results, ...parts.filter((part) => part.kind !== 'tool_result')];
}

function readAssistant(block: AnyBlock, unsupported: UnsupportedNames): readonly AssistantPart[] {
  if (isGatewaySearch(block)) return [];
  if (!isKnown(block)) return readSummary(block) ?? omit(block, unsupported);
  switch (block.type) {
    case 'text':
      return readText(block);
    case 'thinking': {
      const { thinking: text, signature } = block;
      return [{ kind: 'reasoning', text, signature: signature || undefined }];
    }
    case 'redacted_thinking':
      return [{ kind: 'reasoning', text: '', redacted: block.data }];
    case 'tool_use': {
      const { id, name, input } = block;
      const json = JSON.stringify(input);
      return [{ kind: 'tool_call', id, name, arguments: json, ...cacheBreakpoint(block) }];
    }
    default:
      return omit(block, unsupported);
  }
}

function readUser(block: AnyBlock, unsupported: UnsupportedNames): readonly UserPart[] {
  if (isKnown(block) && block.type === 'tool_result') return [readResult(block, unsupported)];
  return readContent(block, unsupported);
}

function readContent(block: AnyBlock, unsupported: UnsupportedNames): readonly ContentPart[] {
  if (!isKnown(block)) {
    const readable = readFoundTool(block) ?? readSearchResult(block) ?? readSummary(block);
    if (readable !== undefined) return readable;
    unsupported.add(`messages.${block.type}`);
    return textPartsOf(block);
  }
  switch (block.type) {
    case 'text':
      return readText(block);
    case 'image': {
      const url = imageUrl(block);
      if (url === undefined) return omit({ type: 'image.source.file' }, unsupported);
      return [{ kind: 'image', url, ...cacheBreakpoint(block) }];
    }
    case 'document':
      return readDocument(block, unsupported);
    default:
      return omit(block, unsupported);
  }
}

/**
 * Reads a result of Claude Code's tool search as the name of the tool that was found. The tool's
 * definition is in the request's tools. Without the name, the result would be empty.
 */
function readFoundTool(block: AnyBlock): readonly TextPart[] | undefined {
  const { type, tool_name: text } = fieldsOf(block);
  return type === 'tool_reference' && typeof text === 'string'
    ? [{ kind: 'text', text }]
    : undefined;
}

/** Reads a search result as a document, named by its title and source. */
function readSearchResult(block: AnyBlock): readonly DocumentPart[] | undefined {
  const { type, title, source, content } = fieldsOf(block);
  if (type !== 'search_result' || !Array.isArray(content)) return undefined;
  const texts = content.map((inner) => fieldsOf(inner).text).filter(isNonEmptyString);
  const name = [title, source].filter(isNonEmptyString).join(', ') || undefined;
  return [{ kind: 'document', source: { text: texts.join('\n\n') }, name }];
}

/** Reads Anthropic's summary of a long conversation, which may replace earlier messages. */
function readSummary(block: AnyBlock): readonly TextPart[] | undefined {
  const { type, content: text } = fieldsOf(block);
  return type === 'compaction' && isNonEmptyString(text) ? [{ kind: 'text', text }] : undefined;
}

function readResult(block: BlockOf<'tool_result'>, unsupported: UnsupportedNames): ToolResultPart {
  const { content, tool_use_id: callId, is_error: isError } = block;
  return {
    kind: 'tool_result',
    callId,
    parts: blocksIn(content ?? []).flatMap((inner) => readContent(inner, unsupported)),
    isError: isError === true,
    ...cacheBreakpoint(block),
  };
}

type ContentPart = TextPart | ImagePart | DocumentPart;

/** Reads a document as one string. Images inside it follow as separate parts. */
function readDocument(
  block: BlockOf<'document'>,
  unsupported: UnsupportedNames,
): readonly ContentPart[] {
  if (block.citations?.enabled) unsupported.add('document.citations');
  if (block.context) unsupported.add('document.context');
  const { source } = block;
  const inner =
    source.type === 'content'
      ? blocksIn(source.content).flatMap((block) => readContent(block, unsupported))
      : [];
  const texts = inner.filter((part) => part.kind === 'text').map(({ text }) => text);
  const images = inner.filter((part) => part.kind !== 'text');
  const name = block.title || undefined;
  if (images.length > 0 && texts.length === 0 && name === undefined) return images;
  const documentSource =
    source.type === 'content' ? { text: texts.join('\n\n') } : readSource(source);
  return [{ kind: 'document', source: documentSource, name, ...cacheBreakpoint(block) }, ...images];
}

type Source = Exclude<BlockOf<'document'>['source'], { readonly type: 'content' }>;

function readSource(source: Source): DocumentPart['source'] {
  switch (source.type) {
    case 'base64':
      return { url: `data:${source.media_type};base64,${source.data}` };
    case 'url':
      return { url: source.url };
    case 'file':
      return { fileId: source.file_id };
    case 'text':
      return { text: source.data };
  }
}

/** Drops a block and records its type, to report it to the client. */
function omit({ type }: AnyBlock, unsupported: UnsupportedNames): readonly [] {
  unsupported.add(`messages.${type}`);
  return [];
}
