import type { RawBody } from '../../dialect.ts';
import { Compile } from 'typebox/schema';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { fieldsOf, isText, itemsOf, textOf } from '../../../core/json.ts';
import type {
  AddressInput,
  ChatRequestInfo,
  ModelNeeds,
  OwnAccountNeed,
} from '../../../core/request-info.ts';
import { validationError } from '../../../core/schema.ts';
import { checkBytes, checkDataUrl } from '../../normalize/requests/content.ts';
import {
  unknownFields,
  withExactNumbers,
} from '../../normalize/requests/edit-body.ts';
import {
  addressesIn,
  firstNeed,
  storedBytes,
  storedContentAt,
  storedContentIn,
} from '../../normalize/requests/external-references.ts';
import { usesLongCacheTtl } from '../../normalize/requests/prompt-cache.ts';
import { noModel, readChain, readPreferences } from '../../normalize/requests/routing.ts';
import { readSearchOptions } from '../../normalize/requests/search-options.ts';
import { presentParameterNames } from '../../normalize/requests/vendor-parameters.ts';
import { imagesOfInput, inputToMessages, toChatBody, unsupportedIn } from './responses-input.ts';
import { type ChatBody, type ChatMessage, chatSchema, type SentBody } from './schema.ts';
import { checkAllowed, nestTools } from './tool-forms.ts';

const validator = Compile(chatSchema);

/** A chat request in OpenAI's words: checked, with `input` already turned into `messages`. */
export interface ChatRequest {
  readonly request: ChatRequestInfo;
  readonly body: Omit<ChatBody, 'messages'> & { readonly messages: readonly ChatMessage[] };
  /** The client's text, as long as it says the same as `body`. */
  readonly source: RawBody | null;
  /** `stream_options.include_usage`, or OpenRouter's `usage.include`. */
  readonly includeUsage: boolean;
  /** The tenant that asks, to keep tenants' prompt caches apart; null where there are no others. */
  readonly tenantId: string | null;
  /** Names of the fields beside `input` that chat has no words for. */
  readonly unsupported: readonly string[];
}

/** The part of a request that is in OpenAI's words. */
export type OpenAiRequest = Pick<ChatRequest, 'body' | 'source'> &
  Partial<Pick<ChatRequest, 'tenantId' | 'unsupported'>>;

/** `expectsUsage`: the client wants the usage although its request does not ask for it. */
export function readChatRequest(
  value: Record<string, unknown>,
  source: RawBody,
  expectsUsage = false,
  tenantId: string | null = null,
): ChatRequest {
  if (!validator.Check(value)) throw chatBodyError(value);
  const models = readChain(value);
  const sent = toMessagesBody(value);
  checkAllowed(sent);
  const exact = sent === value ? value : withExactNumbers(value, source);
  const body = exact === value ? sent : toMessagesBody(exact);
  const messages = value.messages ?? none;
  const located = locateParts(messages);
  const images = value.input ? imagesOfInput(value.input) : located.flatMap(imageAt);
  for (const { url, param } of images) checkDataUrl(url, param);
  const attached = located.flatMap(attachmentAt);
  for (const attachment of attached) checkAttachment(attachment);
  const more = unknownFields(value, chatSchema.properties);
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
    cachesForHour: usesLongCacheTtl(source),
    images,
    user: value.user ?? null,
    search,
    skills: value.skills ?? none,
    addresses: [
      ...attached.flatMap(addressesOf),
      ...addressesIn(more, ''),
      ...located.flatMap(addressesInOtherFields),
    ],
    ownAccount:
      firstNeed(attached, accountNeedOfAttachment) ??
      storedContentIn(more, '') ??
      storedAudioNeed(messages),
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

/** A request that names no model is refused for that, whatever else is wrong with it. */
function chatBodyError(value: Record<string, unknown>): GatewayError {
  const named = value.model ?? value.models ?? none;
  const isNamed = !Array.isArray(named) || named.length > 0;
  return isNamed ? validationError(chatSchema, value) : noModel();
}

function requestsUsage({ stream_options: options, usage }: SentBody): boolean {
  return options?.include_usage === true || usage?.include === true;
}

const none: readonly never[] = [];

/** The body in chat's own words; the very same object where it already is. */
function toMessagesBody(sent: SentBody): ChatRequest['body'] {
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
    throw invalidRequest('messages is required: a list of messages.', 'messages');
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

/** A part, and where it stands. */
interface LocatedPart {
  readonly part: Part;
  readonly path: string;
}

/** The parts of all messages that are more than plain text. */
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

/** Whether a part has other fields than its type and content. Asked of every part: must be fast. */
function hasOtherFields(part: Part): boolean {
  for (const name in part) if (name !== 'type' && name !== part.type) return true;
  return false;
}

function imageAt({ part, path }: LocatedPart): readonly AddressInput[] {
  if (part.type !== 'image_url') return none;
  return [{ param: `${path}.image_url.url`, url: part.image_url.url }];
}

/** Bytes that count as 2,000 tokens, as many as are reserved for any picture. */
const imageReserveBytes = 6_000;

/** Bytes of model-made pictures above that size: a picture's tokens do not grow with its bytes. */
function generatedImageBytes(messages: readonly ChatMessage[]): number {
  let bytes = 0;
  for (const url of generatedImageUrls(messages))
    bytes += Math.max(0, url.length - imageReserveBytes);
  return bytes;
}

/** A file or a sound. */
interface Attachment extends LocatedPart {
  readonly part: Extract<Part, { readonly type: 'file' | 'input_audio' }>;
}

function attachmentAt({ part, path }: LocatedPart): readonly Attachment[] {
  if (part.type !== 'file' && part.type !== 'input_audio') return none;
  return [{ part, path: `${path}.${part.type}` }];
}

/** Refuses an attachment that has nothing to be read. */
function checkAttachment({ part, path }: Attachment): void {
  if (part.type === 'input_audio') checkBytes(part.input_audio.data, `${path}.data`);
  else if (part.file.file_data) checkBytes(part.file.file_data, `${path}.file_data`);
  else if (!part.file.file_id) {
    throw invalidRequest(`${path} must have file_data or file_id.`, path);
  }
}

function addressesOf({ part, path }: Attachment): readonly AddressInput[] {
  if (part.type === 'file') return addressesIn(part.file, path);
  // Some servers take an address here.
  return addressesIn(part.input_audio.data, `${path}.data`, true);
}

/** Servers such as vLLM may look into unknown fields of a part for an address to fetch. */
function addressesInOtherFields({ part, path }: LocatedPart): readonly AddressInput[] {
  return hasOtherFields(part) ? addressesIn({ ...part, [part.type]: undefined }, path) : none;
}

/** Clients send a spoken answer back by its id alone; OpenAI keeps the audio. */
function storedAudioNeed(messages: readonly ChatMessage[]): OwnAccountNeed | undefined {
  const at = messages.findIndex(
    (message) => 'audio' in message && isText(fieldsOf(message.audio).id),
  );
  return at < 0 ? undefined : storedContentAt(`messages[${at}].audio.id`);
}

function accountNeedOfAttachment({ part, path }: Attachment): OwnAccountNeed | undefined {
  if (part.type === 'input_audio') return storedBytes(part.input_audio.data, `${path}.data`);
  const { file_id: id, file_data: data } = part.file;
  return id ? storedContentAt(`${path}.file_id`) : storedBytes(data, `${path}.file_data`);
}

interface ContentSummary {
  readonly images: readonly AddressInput[];
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

/** Fields every dialect must carry, or that are ours: not «parameters» a provider may lack. */
const always = new Set([
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
  return presentParameterNames(body).filter((name) => !always.has(name));
}

/** The addresses of pictures that came with earlier answers, as clients hand them back. */
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
