import { Compile } from 'typebox/schema';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { fieldsOf, isNonEmptyString, itemsOf, textOf } from '../../../core/json.ts';
import type {
  ChatRequestInfo,
  ModelNeeds,
  OwnAccountRequirement,
  UrlInput,
} from '../../../core/request-info.ts';
import { validationError } from '../../../core/schema.ts';
import type { RawBody } from '../../dialect.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import {
  firstRequirement,
  storedBytes,
  storedContentAt,
  storedContentIn,
  urlsIn,
} from '../../normalize/requests/external-references.ts';
import { checkBytes, checkImageUrl } from '../../normalize/requests/inline-data.ts';
import { usesLongCacheTtl } from '../../normalize/requests/prompt-cache.ts';
import { noModel, readModels, readPreferences } from '../../normalize/requests/routing.ts';
import { readSearchOptions } from '../../normalize/requests/search-options.ts';
import { unknownFields } from '../../normalize/requests/unknown-fields.ts';
import { presentParameterNames } from '../../normalize/requests/vendor-parameters.ts';
import { imagesOfInput, inputToMessages, toChatBody, unsupportedIn } from './responses-input.ts';
import {
  type ChatBody,
  type ChatMessage,
  chatSchema,
  type MessagesBody,
  type SentBody,
} from './schema.ts';
import { checkAllowedTools, nestTools } from './tool-formats.ts';

const validator = Compile(chatSchema);

/** A validated chat request, with `input` already converted to `messages`. */
export interface ChatRequest {
  readonly request: ChatRequestInfo;
  readonly body: MessagesBody;
  /** The client's text, or null once it differs from `body`. */
  readonly source: RawBody | null;
  /** `stream_options.include_usage`, or OpenRouter's `usage.include`. */
  readonly includeUsage: boolean;
  /** Separates the tenants' prompt caches; null if there are no other tenants. */
  readonly tenantId: string | null;
  /** Fields of a request with `input` that the chat format lacks. */
  readonly unsupported: readonly string[];
}

/** The parts of a request that upstream requests are written from. */
export type OpenAiRequest = Pick<ChatRequest, 'body' | 'source'> &
  Partial<Pick<ChatRequest, 'tenantId' | 'unsupported'>>;

/**
 * Validates a chat request. `expectsUsage`: the client gets usage even if it doesn't request it.
 * Throws 400.
 */
export function readChatRequest(
  value: Record<string, unknown>,
  source: RawBody,
  expectsUsage = false,
  tenantId: string | null = null,
): ChatRequest {
  if (!validator.Check(value)) throw chatBodyError(value);
  const models = readModels(value);
  const sent = toMessagesBody(value);
  checkAllowedTools(sent);
  const exact = sent === value ? value : withExactNumbers(value, source);
  const body = exact === value ? sent : toMessagesBody(exact);
  const messages = value.messages ?? none;
  const located = locateParts(messages);
  const images = value.input ? imagesOfInput(value.input) : located.flatMap(imageAt);
  for (const { url, param } of images) checkImageUrl(url, param);
  const attached = located.flatMap(attachmentAt);
  for (const attachment of attached) checkAttachment(attachment);
  const extraFields = unknownFields(value, chatSchema.properties);
  const search = readSearchOptions(value);
  const request: ChatRequestInfo = {
    operationName: 'chat',
    models,
    preferences: readPreferences(value),
    stream: value.stream === true,
    outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? null,
    choices: value.n ?? 1,
    needs: readNeeds(body, { images, attached, searches: search !== null }),
    parameters: value.provider?.require_parameters ? parametersOf(body) : none,
    inputBytes: source.bytes.length - generatedImageBytes(messages),
    usesLongCacheTtl: usesLongCacheTtl(source),
    images,
    user: value.user ?? null,
    promptCacheKey: value.prompt_cache_key ?? null,
    search,
    skills: value.skills ?? none,
    urls: [
      ...attached.flatMap(urlsOf),
      ...urlsIn(extraFields, ''),
      ...located.flatMap(urlsInOtherFields),
    ],
    ownAccount:
      firstRequirement(attached, accountRequirementOfAttachment) ??
      storedContentIn(extraFields, '') ??
      storedAudioRequirement(messages),
  };
  return {
    request,
    body,
    source: body === value ? source : null,
    includeUsage: expectsUsage || requestsUsage(value),
    tenantId,
    unsupported: value.input ? unsupportedIn(value) : none,
  };
}

/** Returns the error for an invalid body. A missing model is reported first. */
function chatBodyError(value: Record<string, unknown>): GatewayError {
  const named = value.model ?? value.models ?? none;
  const isNamed = !Array.isArray(named) || named.length > 0;
  return isNamed ? validationError(chatSchema, value) : noModel();
}

function requestsUsage({ stream_options: options, usage }: SentBody): boolean {
  return options?.include_usage === true || usage?.include === true;
}

const none: readonly never[] = [];

/** Converts the body to chat's own format. Returns the same object if nothing changed. */
function toMessagesBody(sent: SentBody): MessagesBody {
  const nested = nestTools(sent);
  const body = nested.max_output_tokens ? capped(nested) : nested;
  const { input, instructions } = body;
  if (body.messages && input) {
    throw invalidRequest('Send either messages or input, not both.', 'input');
  }
  if (input) {
    return { ...toChatBody(body), messages: inputToMessages(input, instructions ?? undefined) };
  }
  if (!hasMessages(body)) {
    throw invalidRequest('messages is required and must be an array.', 'messages');
  }
  if (!instructions) return body;
  return { ...body, messages: [{ role: 'system', content: instructions }, ...body.messages] };
}

function capped({ max_output_tokens: limit = null, ...body }: ChatBody): ChatBody {
  return body.max_completion_tokens || body.max_tokens ? body : { ...body, max_tokens: limit };
}

function hasMessages(body: ChatBody): body is ChatBody & { messages: ChatMessage[] } {
  return Array.isArray(body.messages);
}

type Part = Extract<ChatMessage['content'], readonly unknown[]>[number];

/** A part and its path. */
interface LocatedPart {
  readonly part: Part;
  readonly path: string;
}

/** Returns all message parts that aren't plain text. */
function locateParts(messages: readonly ChatMessage[]): readonly LocatedPart[] {
  const found: LocatedPart[] = [];
  for (let i = 0; i < messages.length; i += 1) {
    const content = messages[i]?.content;
    if (!Array.isArray(content)) continue;
    for (let j = 0; j < content.length; j += 1) {
      const part = content[j];
      if (!part || (part.type === 'text' && !hasOtherFields(part))) continue;
      found.push({ part, path: `messages[${i}].content[${j}]` });
    }
  }
  return found;
}

/** True if a part has fields other than its type and content. Runs for every part: keep it fast. */
function hasOtherFields(part: Part): boolean {
  for (const name in part) if (name !== 'type' && name !== part.type) return true;
  return false;
}

function imageAt({ part, path }: LocatedPart): readonly UrlInput[] {
  if (part.type !== 'image_url') return none;
  return [{ param: `${path}.image_url.url`, url: part.image_url.url }];
}

/** This many bytes count as 2,000 tokens, which are held for any image. */
const imageReserveBytes = 6_000;

/**
 * Returns how many bytes of generated images exceed this reserve. They aren't counted, because an
 * image's tokens don't depend on its size in bytes.
 */
function generatedImageBytes(messages: readonly ChatMessage[]): number {
  let bytes = 0;
  for (const url of generatedImageUrls(messages))
    bytes += Math.max(0, url.length - imageReserveBytes);
  return bytes;
}

/** A file or audio. */
interface Attachment extends LocatedPart {
  readonly part: Extract<Part, { readonly type: 'file' | 'input_audio' }>;
}

function attachmentAt({ part, path }: LocatedPart): readonly Attachment[] {
  if (part.type !== 'file' && part.type !== 'input_audio') return none;
  return [{ part, path: `${path}.${part.type}` }];
}

/** Rejects an attachment without readable content. Throws 400. */
function checkAttachment({ part, path }: Attachment): void {
  if (part.type === 'input_audio') checkBytes(part.input_audio.data, `${path}.data`);
  else if (part.file.file_data) checkBytes(part.file.file_data, `${path}.file_data`);
  else if (!part.file.file_id) {
    throw invalidRequest(`${path} must have file_data or file_id.`, path);
  }
}

function urlsOf({ part, path }: Attachment): readonly UrlInput[] {
  if (part.type === 'file') return urlsIn(part.file, path);
  // Some servers accept a URL here.
  return urlsIn(part.input_audio.data, `${path}.data`, true);
}

/** Servers such as vLLM may fetch URLs in unknown fields of a part. */
function urlsInOtherFields({ part, path }: LocatedPart): readonly UrlInput[] {
  return hasOtherFields(part) ? urlsIn({ ...part, [part.type]: undefined }, path) : none;
}

/** Clients send back only the ID of an audio answer, because OpenAI stores the audio. */
function storedAudioRequirement(
  messages: readonly ChatMessage[],
): OwnAccountRequirement | undefined {
  const at = messages.findIndex(
    (message) => 'audio' in message && isNonEmptyString(fieldsOf(message.audio).id),
  );
  return at < 0 ? undefined : storedContentAt(`messages[${at}].audio.id`);
}

function accountRequirementOfAttachment({
  part,
  path,
}: Attachment): OwnAccountRequirement | undefined {
  if (part.type === 'input_audio') return storedBytes(part.input_audio.data, `${path}.data`);
  const { file_id: id, file_data: data } = part.file;
  return id ? storedContentAt(`${path}.file_id`) : storedBytes(data, `${path}.file_data`);
}

interface ContentSummary {
  readonly images: readonly UrlInput[];
  readonly attached: readonly Attachment[];
  readonly searches: boolean;
}

function readNeeds(body: ChatRequest['body'], content: ContentSummary): ModelNeeds {
  const { images, attached, searches } = content;
  const has = (type: Part['type']) => attached.some(({ part }) => part.type === type);
  const format = body.response_format?.type;
  return {
    tools: [body.tools, body.functions].some((list) => list?.length) || searches,
    json: format === 'json_object' || format === 'json_schema',
    images: images.length > 0,
    audio: has('input_audio'),
    files: has('file'),
    thinkingBudget: (body.reasoning?.budget_tokens ?? null) !== null,
  };
}

/**
 * Fields that any provider can receive, because every dialect supports them or only the gateway
 * handles them.
 */
const universalFields = new Set([
  'model',
  'models',
  'messages',
  'input',
  'instructions',
  'stream',
  'stream_options',
  'usage',
  'provider',
  'route',
  'metadata',
  'plugins',
  'skills',
]);

function parametersOf(body: ChatRequest['body']): readonly string[] {
  return presentParameterNames(body).filter((name) => !universalFields.has(name));
}

/** Returns the URLs of generated images that clients send back with earlier answers. */
export function generatedImageUrls(messages: readonly object[]): readonly string[] {
  const found: string[] = [];
  for (const message of messages) {
    if (!('images' in message)) continue;
    for (const image of itemsOf(message.images)) {
      found.push(textOf(fieldsOf(fieldsOf(image).image_url).url));
    }
  }
  return found;
}
