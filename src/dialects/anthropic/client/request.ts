import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../../core/errors.ts';
import { fieldsOf, type JsonObject, textOf } from '../../../core/json.ts';
import type {
  ChatRequestInfo,
  ModelNeeds,
  OwnAccountRequirement,
  SearchOptions,
  UrlInput,
} from '../../../core/request-info.ts';
import { validationError } from '../../../core/schema.ts';
import type { RawBody, TokenCountRequestInfo } from '../../dialect.ts';
import {
  firstRequirement,
  regionRequirement,
  storedContentAt,
  storedContentIn,
  urlsIn,
} from '../../normalize/requests/external-references.ts';
import { usesLongCacheTtl } from '../../normalize/requests/prompt-cache.ts';
import { readModels, readPreferences } from '../../normalize/requests/routing.ts';
import { readSearchOptions } from '../../normalize/requests/search-options.ts';
import { unknownFields } from '../../normalize/requests/unknown-fields.ts';
import { presentParameterNames } from '../../normalize/requests/vendor-parameters.ts';
import { definitionOf } from './client-run-tools.ts';
import {
  type AnyBlock,
  type CountBody,
  type CustomTool,
  checkBlocks,
  contentMessageSchema,
  countSchema,
  customToolSchema,
  imageUrl,
  innerBlocks,
  isGeneratedImage,
  isKnown,
  type MessagesBody,
  messagesSchema,
} from './schema.ts';
import { type AnyTool, addedTool, changesIn } from './tool-changes.ts';

const messagesValidator = Compile(messagesSchema);
const countValidator = Compile(countSchema);
const toolValidator = Compile(customToolSchema);

/** A validated request in Anthropic's format. */
export interface MessagesRequest {
  readonly request: ChatRequestInfo;
  readonly body: MessagesBody;
  /** The bytes that the client sent; null once `body` has been changed. */
  readonly source: RawBody | null;
}

/** With `thread`, a client sends only the latest messages, such as a tool's result. */
const threadUnsupported =
  "thread isn't supported, because this gateway doesn't store conversations. Send all messages.";

export function readMessagesRequest(
  value: Record<string, unknown>,
  source: RawBody,
): MessagesRequest {
  if ((value.thread ?? null) !== null) throw invalidRequest(threadUnsupported, 'thread');
  if (!messagesValidator.Check(value)) throw validationError(messagesSchema, value);
  checkContent(value);
  const blocks = blocksOf(value);
  const images = blocks.flatMap(imageIn);
  const extraFields = unknownFields(value, messagesSchema.properties);
  const request: ChatRequestInfo = {
    operationName: 'chat',
    models: readModels(value),
    preferences: readPreferences(value),
    stream: value.stream === true,
    outputTokensMax: Math.max(1, value.max_tokens),
    choices: 1,
    needs: readNeeds(value, blocks),
    parameters: value.provider?.require_parameters ? parametersOf(value) : [],
    inputBytes: source.bytes.length - generatedImageBytes(value),
    usesLongCacheTtl: usesLongCacheTtl(source),
    images,
    user: value.metadata?.user_id ?? null,
    search: readSearchOptions(value),
    skills: value.skills ?? [],
    urls: urlsOf(value, blocks, extraFields),
    ownAccount: regionRequirement(value) ?? ownAccountFor(value, blocks, extraFields),
  };
  return { request, body: value, source };
}

/** A validated request to count tokens. */
export interface CountRequest {
  readonly request: TokenCountRequestInfo;
  /** Null if the request doesn't use web search. */
  readonly search: SearchOptions | null;
  readonly body: CountBody;
  readonly source: RawBody;
}

/** Reads a request to count tokens. Such a request needs no output limit. */
export function readCountRequest(value: Record<string, unknown>, source: RawBody): CountRequest {
  if (!countValidator.Check(value)) throw validationError(countSchema, value);
  const models = readModels(value);
  checkContent(value);
  const blocks = blocksOf(value);
  const extraFields = unknownFields(value, countSchema.properties);
  const request = {
    models,
    preferences: readPreferences(value),
    parameters: parametersOf(value),
    images: blocks.flatMap(imageIn),
    urls: urlsOf(value, blocks, extraFields),
    ownAccount: ownAccountFor(value, blocks, extraFields),
    needs: { tools: needsTools(value, blocks) },
    inputBytes: source.bytes.length - generatedImageBytes(value),
    user: textOf(fieldsOf(value.metadata).user_id) || null,
  };
  return { request, search: readSearchOptions(value), body: value, source };
}

function checkContent({ messages, tools }: CountBody): void {
  for (const [index, message] of messages.entries()) {
    const { role, content } = message;
    if (Array.isArray(content)) checkBlocks(content, role, `messages[${index}].content`);
    else if (typeof content !== 'string' && !(role === 'system' && 'output_config' in message)) {
      throw validationError(contentMessageSchema, message, `messages[${index}]`);
    }
  }
  for (const [index, tool] of (tools ?? []).entries()) {
    if (isClientTool(tool) && !toolValidator.Check(tool)) {
      throw validationError(customToolSchema, tool, `tools[${index}]`);
    }
  }
}

function isClientTool({ type }: AnyTool): boolean {
  return type === undefined || type === null || type === 'custom';
}

/** Returns true for a tool that the client defines itself. */
export function isCustom(tool: AnyTool): tool is CustomTool {
  return isClientTool(tool) && toolValidator.Check(tool);
}

/** Returns true for a tool that the client runs, with its own schema or a published one. */
export function isFunction(tool: AnyTool): boolean {
  return isCustom(tool) || definitionOf(tool) !== undefined;
}

interface LocatedBlock {
  readonly block: AnyBlock;
  readonly path: string;
}

/**
 * Returns all blocks other than text, including nested ones. Omits images that a model generated,
 * because they aren't sent to a model again.
 */
function blocksOf({ messages }: CountBody): readonly LocatedBlock[] {
  const found: LocatedBlock[] = [];
  for (const [index, { role, content }] of messages.entries()) {
    const isOmitted = (block: AnyBlock) => block.type === 'text' || isGeneratedImage(block, role);
    if (Array.isArray(content)) addBlocks(found, content, `messages[${index}].content`, isOmitted);
  }
  return found;
}

function addBlocks(
  found: LocatedBlock[],
  blocks: readonly AnyBlock[],
  parentPath: string,
  isOmitted: (block: AnyBlock) => boolean,
): void {
  for (const [index, block] of blocks.entries()) {
    if (isOmitted(block)) continue;
    const path = `${parentPath}[${index}]`;
    found.push({ block, path });
    const inner = innerBlocks(block);
    if (inner) addBlocks(found, inner.blocks, `${path}.${inner.field}`, isOmitted);
  }
}

/**
 * Returns the size of generated images in bytes. They aren't sent upstream, so no credits are held
 * for them.
 */
function generatedImageBytes({ messages }: CountBody): number {
  let bytes = 0;
  for (const { role, content } of messages) {
    if (role !== 'assistant' || !Array.isArray(content)) continue;
    for (const block of content)
      if (isGeneratedImage(block, role)) bytes += imageUrl(block)?.length ?? 0;
  }
  return bytes;
}

function imageIn({ block, path }: LocatedBlock): readonly UrlInput[] {
  if (!isKnown(block) || block.type !== 'image') return [];
  return [{ param: `${path}.source`, url: imageUrl(block) ?? '' }];
}

/**
 * Returns the URLs that the upstream may fetch: those in documents, and those in blocks, tools, and
 * fields that the gateway doesn't know. URLs in the input of past tool calls are omitted, because
 * upstreams don't fetch them.
 */
function urlsOf(
  { tools }: CountBody,
  blocks: readonly LocatedBlock[],
  extraFields: object,
): readonly UrlInput[] {
  const inTool = (tool: AnyTool, index: number) =>
    isClientTool(tool) ? [] : urlsIn(tool, `tools[${index}]`);
  return [
    ...blocks.flatMap(urlsInBlock),
    ...(tools ?? []).flatMap(inTool),
    ...urlsIn(extraFields, ''),
  ];
}

function urlsInBlock({ block, path }: LocatedBlock): readonly UrlInput[] {
  if (block.type.endsWith('tool_use') || addsClientTool(block)) return [];
  if (!isKnown(block)) return urlsIn(block, path);
  if (block.type !== 'document' || block.source.type === 'content') return [];
  return urlsIn(block.source, `${path}.source`);
}

/**
 * Returns the first reference to a file stored at the provider. Such a request needs the tenant's
 * own account. Past tool calls and their results are skipped.
 */
function ownAccountFor(
  { tools }: CountBody,
  blocks: readonly LocatedBlock[],
  extraFields: object,
): OwnAccountRequirement | undefined {
  const accountRequirementOfTool = (tool: AnyTool, index: number) =>
    isClientTool(tool) ? undefined : storedContentIn(tool, `tools[${index}]`);
  return (
    firstRequirement(blocks, accountRequirementOfBlock) ??
    firstRequirement(tools ?? [], accountRequirementOfTool) ??
    storedContentIn(extraFields, '')
  );
}

function accountRequirementOfBlock({
  block,
  path,
}: LocatedBlock): OwnAccountRequirement | undefined {
  if (!isKnown(block)) {
    const isPastToolUse = /tool_(?:use|result)$/.test(block.type);
    return isPastToolUse || addsClientTool(block) ? undefined : storedContentIn(block, path);
  }
  if (block.type !== 'image' && block.type !== 'document') return undefined;
  return block.source.type === 'file' ? storedContentAt(`${path}.source.file_id`) : undefined;
}

function needsTools({ tools }: Pick<CountBody, 'tools'>, blocks: readonly LocatedBlock[]): boolean {
  return (tools ?? []).some(isFunction) || blocks.some(addsTools);
}

function readNeeds(body: MessagesBody, blocks: readonly LocatedBlock[]): ModelNeeds {
  const isFile = (block: AnyBlock) =>
    isKnown(block) &&
    block.type === 'document' &&
    ['base64', 'url', 'file'].includes(block.source.type);
  return {
    tools: needsTools(body, blocks),
    json: formatOf(body) !== null,
    images: blocks.some(({ block }) => block.type === 'image'),
    audio: false,
    files: blocks.some(({ block }) => isFile(block)),
    // Never required: the first adaptive models accept a budget, and for other models, the upstream
    // rejects it.
    thinkingBudget: false,
  };
}

function addsTools({ block }: LocatedBlock): boolean {
  return changesIn(block).some((change) => isFunction(addedTool(change) ?? { type: '' }));
}

function addsClientTool(block: Readonly<JsonObject>): boolean {
  const tool = addedTool(block);
  return tool !== undefined && isClientTool(tool);
}

export function formatOf({ output_config: config, output_format: older }: CountBody) {
  return config?.format ?? older ?? null;
}

/** Returns the request's parameters by OpenAI's names, which the model list uses. */
function parametersOf(body: CountBody): readonly string[] {
  return presentParameterNames({
    max_tokens: body.max_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    top_k: body.top_k,
    stop: body.stop_sequences,
    tools: body.tools,
    tool_choice: body.tool_choice,
    reasoning: body.thinking ?? body.output_config?.effort,
    response_format: formatOf(body),
  });
}
