import { Compile } from 'typebox/schema';
import type {
  AddressInput,
  ChatAsk,
  ModelNeeds,
  OwnAccountNeed,
  SearchWish,
} from '../../core/ask.ts';
import { invalidRequest } from '../../core/errors.ts';
import type { Fields } from '../../core/json.ts';
import { misfit } from '../../core/misfit.ts';
import { firstNeed, keptAt, keptIn, regionNeed } from '../ask/account/own-account.ts';
import type { Source } from '../ask/body/edit-body.ts';
import { unknownFields } from '../ask/body/unknown-fields.ts';
import { cachesForHour } from '../ask/cache-hour.ts';
import { addressesIn } from '../ask/content/addresses.ts';
import { readChain, readPreferences } from '../ask/routing.ts';
import { readSearchWish } from '../ask/search-wish.ts';
import type { CountAsk } from '../count.ts';
import { namesGiven } from '../parameters.ts';
import { type AnyBlock, checkBlocks, imageUrl, innerBlocks, isKnown, isMade } from './blocks.ts';
import {
  type CountBody,
  type CustomTool,
  countSchema,
  customToolSchema,
  type MessagesBody,
  messagesSchema,
  saidSchema,
} from './messages-schema.ts';
import { type AnyTool, addedTool, changesIn } from './tool-changes.ts';

const messagesValidator = Compile(messagesSchema);
const countValidator = Compile(countSchema);
const toolValidator = Compile(customToolSchema);

/** A request in Anthropic's words, checked. */
export interface MessagesRequest {
  readonly ask: ChatAsk;
  readonly body: MessagesBody;
  /** The bytes that the client sent; null once `body` no longer says the same. */
  readonly source: Source | null;
}

/** Without the earlier messages, a model would see nothing but a tool's result. */
const threadless =
  'asks for a conversation to be kept, but nothing is kept here: send all of its messages.';

export function readMessagesRequest(
  value: Record<string, unknown>,
  source: Source,
): MessagesRequest {
  if ((value.thread ?? null) !== null) throw invalidRequest(`thread ${threadless}`, 'thread');
  if (!messagesValidator.Check(value)) throw misfit(messagesSchema, value);
  checkContent(value);
  const blocks = blocksOf(value);
  const images = blocks.flatMap(imageIn);
  const more = unknownFields(value, messagesSchema.properties);
  const ask: ChatAsk = {
    operation: 'chat',
    models: readChain(value),
    preferences: readPreferences(value),
    stream: value.stream === true,
    outputTokensMax: Math.max(1, value.max_tokens),
    choices: 1,
    needs: readNeeds(value, blocks),
    parameters: value.provider?.require_parameters ? parametersOf(value) : [],
    inputBytes: source.bytes.length - madeBytes(value),
    cachesForHour: cachesForHour(source),
    images,
    user: value.metadata?.user_id ?? null,
    search: readSearchWish(value),
    skills: value.skills ?? [],
    addresses: addressesOf(value, blocks, more),
    ownAccount: regionNeed(value) ?? ownAccountFor(value, blocks, more),
  };
  return { ask, body: value, source };
}

/** A request whose tokens are to be counted, checked. */
export interface CountRequest {
  readonly ask: CountAsk;
  /** Set when the gateway shall search the web for the model. */
  readonly search: SearchWish | null;
  readonly body: CountBody;
  readonly source: Source;
}

/** Reads a request that is only counted, and so need not limit its output. */
export function readCountRequest(value: Record<string, unknown>, source: Source): CountRequest {
  if (!countValidator.Check(value)) throw misfit(countSchema, value);
  const models = readChain(value);
  checkContent(value);
  const blocks = blocksOf(value);
  const more = unknownFields(value, countSchema.properties);
  const ask = {
    models,
    preferences: readPreferences(value),
    parameters: parametersOf(value),
    images: blocks.flatMap(imageIn),
    addresses: addressesOf(value, blocks, more),
    ownAccount: ownAccountFor(value, blocks, more),
  };
  return { ask, search: readSearchWish(value), body: value, source };
}

function checkContent({ messages, tools }: CountBody): void {
  for (const [at, message] of messages.entries()) {
    const { role, content } = message;
    if (Array.isArray(content)) checkBlocks(content, role, `messages[${at}].content`);
    else if (typeof content !== 'string' && !(role === 'system' && 'output_config' in message)) {
      throw misfit(saidSchema, message, `messages[${at}]`);
    }
  }
  for (const [at, tool] of (tools ?? []).entries()) {
    if (isOwnTool(tool) && !toolValidator.Check(tool)) {
      throw misfit(customToolSchema, tool, `tools[${at}]`);
    }
  }
}

function isOwnTool({ type }: AnyTool): boolean {
  return type === undefined || type === null || type === 'custom';
}

/** True for a tool that the client runs, as opposed to the provider's own. */
export function isCustom(tool: AnyTool): tool is CustomTool {
  return isOwnTool(tool) && toolValidator.Check(tool);
}

interface Placed {
  readonly block: AnyBlock;
  readonly path: string;
}

/**
 * All blocks of the conversation but its texts, including blocks inside others. Pictures that a
 * model made are left out: no model is shown them again.
 */
function blocksOf({ messages }: CountBody): readonly Placed[] {
  const found: Placed[] = [];
  for (const [at, { role, content }] of messages.entries()) {
    const isLeftOut = (block: AnyBlock) => block.type === 'text' || isMade(block, role);
    if (Array.isArray(content)) addBlocks(found, content, `messages[${at}].content`, isLeftOut);
  }
  return found;
}

function addBlocks(
  found: Placed[],
  blocks: readonly AnyBlock[],
  place: string,
  isLeftOut: (block: AnyBlock) => boolean,
): void {
  for (const [at, block] of blocks.entries()) {
    if (isLeftOut(block)) continue;
    const path = `${place}[${at}]`;
    found.push({ block, path });
    const inner = innerBlocks(block);
    if (inner) addBlocks(found, inner.blocks, `${path}.${inner.field}`, isLeftOut);
  }
}

/** The size of pictures that a model made: these are not sent, so no credits are held for them. */
function madeBytes({ messages }: CountBody): number {
  let bytes = 0;
  for (const { role, content } of messages) {
    if (role !== 'assistant' || !Array.isArray(content)) continue;
    for (const block of content) if (isMade(block, role)) bytes += imageUrl(block)?.length ?? 0;
  }
  return bytes;
}

function imageIn({ block, path }: Placed): readonly AddressInput[] {
  if (!isKnown(block) || block.type !== 'image') return [];
  return [{ param: `${path}.source`, url: imageUrl(block) ?? '' }];
}

/**
 * The addresses in documents, and in blocks, tools and fields that only an upstream knows. Those
 * in the input of a tool call are not fetched by the upstream again.
 */
function addressesOf(
  { tools }: CountBody,
  blocks: readonly Placed[],
  more: object,
): readonly AddressInput[] {
  const inTool = (tool: AnyTool, at: number) =>
    isOwnTool(tool) ? [] : addressesIn(tool, `tools[${at}]`);
  return [
    ...blocks.flatMap(addressesInBlock),
    ...(tools ?? []).flatMap(inTool),
    ...addressesIn(more, ''),
  ];
}

function addressesInBlock({ block, path }: Placed): readonly AddressInput[] {
  if (block.type.endsWith('tool_use') || bringsOwnTool(block)) return [];
  if (!isKnown(block)) return addressesIn(block, path);
  if (block.type !== 'document' || block.source.type === 'content') return [];
  return addressesIn(block.source, `${path}.source`);
}

/**
 * Why the request needs an account of the tenant's own: a picture, a document, or a block, tool or
 * field that only an upstream knows refers to a file there. Past results of tools do not count.
 */
function ownAccountFor(
  { tools }: CountBody,
  blocks: readonly Placed[],
  more: object,
): OwnAccountNeed | undefined {
  const keptInTool = (tool: AnyTool, at: number) =>
    isOwnTool(tool) ? undefined : keptIn(tool, `tools[${at}]`);
  return firstNeed(blocks, keptInBlock) ?? firstNeed(tools ?? [], keptInTool) ?? keptIn(more, '');
}

function keptInBlock({ block, path }: Placed): OwnAccountNeed | undefined {
  if (!isKnown(block)) {
    const isOver = /tool_(?:use|result)$/.test(block.type);
    return isOver || bringsOwnTool(block) ? undefined : keptIn(block, path);
  }
  if (block.type !== 'image' && block.type !== 'document') return undefined;
  return block.source.type === 'file' ? keptAt(`${path}.source.file_id`) : undefined;
}

function readNeeds(body: MessagesBody, blocks: readonly Placed[]): ModelNeeds {
  const isFile = (block: AnyBlock) =>
    isKnown(block) &&
    block.type === 'document' &&
    ['base64', 'url', 'file'].includes(block.source.type);
  return {
    tools: (body.tools ?? []).some(isOwnTool) || blocks.some(bringsTools),
    json: formatOf(body) !== null,
    images: blocks.some(({ block }) => block.type === 'image'),
    audio: false,
    files: blocks.some(({ block }) => isFile(block)),
    // Never demanded: models that refuse a budget say so, and the first adaptive ones take one.
    thinkingBudget: false,
  };
}

function bringsTools({ block }: Placed): boolean {
  return changesIn(block).some(bringsOwnTool);
}

function bringsOwnTool(block: Readonly<Fields>): boolean {
  const tool = addedTool(block);
  return tool !== undefined && isOwnTool(tool);
}

export function formatOf({ output_config: config, output_format: older }: CountBody) {
  return config?.format ?? older ?? null;
}

/** The parameters of the request by OpenAI's names, which the model list uses. */
function parametersOf(body: CountBody): readonly string[] {
  return namesGiven({
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
