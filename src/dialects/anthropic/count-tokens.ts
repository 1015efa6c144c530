import { fieldsOf, isObject, type JsonObject, parseJson } from '../../core/json.ts';
import { readDataUrlImageSize } from '../../core/media/images.ts';
import type {
  CountTarget,
  Edits,
  TokenCount,
  TokenCountRequest,
  TokenCountResult,
  UpstreamRequest,
} from '../dialect.ts';
import { readErrorObject } from '../failure.ts';
import { dropFields, editBody, gatewayFields } from '../normalize/requests/edit-body.ts';
import { withDependents } from '../normalize/requests/tools.ts';
import { closedAccount } from '../normalize/responses/failure-kind.ts';
import { dialects } from '../registry.ts';
import { withNeededBetas } from './betas.ts';
import type { CountRequest } from './client/request.ts';
import {
  type AnyBlock,
  type BlockOf,
  blocksIn,
  type CountBody,
  countSchema,
  imageUrl,
  isGeneratedImage,
  isKnown,
  messagesNames,
} from './client/schema.ts';
import { countEndpoint, readVersion, type VersionHeaders } from './hosts.ts';
import {
  normalizeMessages,
  systemOf,
  withoutHoistedInstructions,
  withSchemas,
} from './passthrough/request.ts';
import { anthropicUpstream } from './upstream/reader.ts';

// Forwards token-counting requests to Anthropic-style upstreams.

/**
 * Fields that Anthropic's count endpoint rejects. Clients send them anyway, because they count the
 * request that they are about to send.
 */
const messageOnlyFields = [
  ...['max_tokens', 'stream', 'temperature', 'top_p', 'top_k', 'stop_sequences', 'metadata'],
  ...['service_tier', 'container', 'inference_geo', 'diagnostics'],
  ...['fallbacks', 'fallback_credit_token', 'thread'],
];

export function anthropicCount(request: CountRequest, headers: Headers): TokenCountRequest {
  const version = readVersion(headers);
  return {
    request: request.request,
    supports: (dialect) => dialects[dialect].chat === anthropicUpstream,
    write: (target) => writeCount(request, version, target),
    read,
  };
}

function writeCount(
  { request, search, body: checked, source }: CountRequest,
  version: VersionHeaders,
  target: CountTarget,
): UpstreamRequest | undefined {
  const { quirks } = target;
  const { path, fields } = countEndpoint(target, version);
  const body: CountRequest['body'] & JsonObject = withSchemas(checked, source);
  // If the gateway runs the search, the chat request will have a different search tool or none, so
  // a count of this request would be wrong.
  const isManagedSearch = ({ type }: JsonObject) => type === 'web_search';
  if (search?.isProviderTool === false || body.tools?.some(isManagedSearch)) return undefined;
  const isRemote = ({ url }: { readonly url: string }) => /^https?:/i.test(url);
  if (quirks.remote_images === 'inline' && request.images.some(isRemote)) return undefined;
  const edits: Edits = { ...fields };
  if (body !== checked) edits.tools = body.tools;
  const unsupported = withDependents(quirks.drop_params ?? []);
  const omitted = new Set([...gatewayFields, ...messageOnlyFields, ...unsupported]);
  dropFields(body, omitted, edits, countSchema.properties);
  const remaining = withoutHoistedInstructions(body.messages, quirks);
  const { messages, lostThinking } = normalizeMessages(remaining, new Map());
  if (messages !== body.messages) edits.messages = messages;
  const system = systemOf(body, remaining);
  if (system !== body.system) edits.system = system;
  if (lostThinking && body.thinking?.type === 'enabled') edits.thinking = undefined;
  const { headers } = countEndpoint(target, withNeededBetas(version, { ...body, ...edits }));
  return { path, headers, body: editBody({ body, source, checkedNames: messagesNames }, edits) };
}

function read(status: number, text: string): TokenCountResult | undefined {
  const answer = parseJson(text);
  if (!isObject(answer)) return undefined;
  if (status === 200) return tokensIn(answer);
  // Any other status concerns the account, or means that the server can't count tokens.
  if (status !== 400) return undefined;
  const { kind, message } = readErrorObject(answer);
  return kind === 'request' && !closedAccount.test(message) ? { fault: message } : undefined;
}

function tokensIn({ input_tokens, context_management }: JsonObject): TokenCount | undefined {
  if (!isCount(input_tokens)) return undefined;
  const { original_input_tokens } = fieldsOf(context_management);
  if (!isCount(original_input_tokens)) return { input_tokens };
  return { input_tokens, context_management: { original_input_tokens } };
}

function isCount(tokens: unknown): tokens is number {
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0;
}

// Estimates the input tokens of a request from its text, images, and files.

/** Tokens that Anthropic adds for each message and each tool. */
const tokensPerMessage = 4;
const tokensPerTool = 8;

/**
 * An image costs 1 token per 750 pixels. Anthropic shrinks larger images to at most 1,600 tokens.
 */
const pixelsPerToken = 750;
export const tokensPerImageMax = 1_600;

/** A PDF page has about 50 KB and 2,000 tokens. */
const base64PerToken = 32;

type Countable = string | { readonly tokens: number };

/** Yields the strings to count, and the token counts of everything else. */
export function* countable({ system, messages, tools }: CountBody): Generator<Countable> {
  yield* inContent(system);
  for (const tool of tools ?? []) {
    yield { tokens: tokensPerTool };
    yield JSON.stringify(tool);
  }
  for (const { role, content } of messages) {
    yield { tokens: tokensPerMessage };
    const blocks = blocksIn(content ?? []);
    yield* inContent(blocks.filter((block) => !isGeneratedImage(block, role)));
  }
}

function* inContent(
  content: string | readonly AnyBlock[] | null | undefined,
): Generator<Countable> {
  for (const block of blocksIn(content ?? [])) yield* inBlock(block);
}

function* inBlock(block: AnyBlock): Generator<Countable> {
  if (!isKnown(block)) yield JSON.stringify(block);
  else if (block.type === 'text') yield block.text;
  else if (block.type === 'image') yield { tokens: imageTokens(imageUrl(block) ?? '') };
  else if (block.type === 'document') yield* inDocument(block.source);
  else if (block.type === 'tool_use') yield `${block.name} ${JSON.stringify(block.input)}`;
  else if (block.type === 'tool_result') yield* inContent(block.content);
  // Thinking blocks from earlier turns are free, because the model doesn't read them again.
}

function imageTokens(url: string): number {
  const size = readDataUrlImageSize(url);
  if (!size) return tokensPerImageMax;
  const tokens = Math.ceil((size.width * size.height) / pixelsPerToken);
  return Math.min(tokens, tokensPerImageMax);
}

function* inDocument(source: BlockOf<'document'>['source']): Generator<Countable> {
  if (source.type === 'text') yield source.data;
  if (source.type === 'base64') yield { tokens: Math.ceil(source.data.length / base64PerToken) };
  if (source.type === 'content') yield* inContent(source.content);
}
