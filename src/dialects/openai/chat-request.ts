import { Compile } from 'typebox/schema';
import type { AddressInput, ChatAsk, ModelNeeds, OwnAccountNeed } from '../../core/ask.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import { fieldsOf, isText } from '../../core/json.ts';
import { misfit } from '../../core/misfit.ts';
import { firstNeed, keptAt, keptBytes, keptIn } from '../ask/account/own-account.ts';
import type { Source } from '../ask/body/edit-body.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { unknownFields } from '../ask/body/unknown-fields.ts';
import { cachesForHour } from '../ask/cache-hour.ts';
import { addressesIn } from '../ask/content/addresses.ts';
import { checkBytes, checkDataUrl } from '../ask/content/inline-content.ts';
import { noModel, readChain, readPreferences } from '../ask/routing.ts';
import { readSearchWish } from '../ask/search-wish.ts';
import { namesGiven } from '../parameters.ts';
import { type ChatBody, type ChatMessage, chatSchema, type SentBody } from './chat-schema.ts';
import { nestTools } from './flat-tools.ts';
import { madePictures } from './made-pictures.ts';
import { checkAllowed } from './newer-tools.ts';
import { imagesOfInput, inChat, inputToMessages, unsaidIn } from './responses-input.ts';

const validator = Compile(chatSchema);

/** A chat request in OpenAI's words: checked, with `input` already turned into `messages`. */
export interface ChatRequest {
  readonly ask: ChatAsk;
  readonly body: Omit<ChatBody, 'messages'> & { readonly messages: readonly ChatMessage[] };
  /** The client's text, as long as it says the same as `body`. */
  readonly source: Source | null;
  /** `stream_options.include_usage`, or OpenRouter's `usage.include`. */
  readonly includeUsage: boolean;
  /** The tenant that asks, to keep tenants' prompt caches apart; null where there are no others. */
  readonly tenantId: string | null;
  /** Names of the fields beside `input` that chat has no words for. */
  readonly unsaid: readonly string[];
}

/** The part of a request that is in OpenAI's words. */
export type Worded = Pick<ChatRequest, 'body' | 'source'> &
  Partial<Pick<ChatRequest, 'tenantId' | 'unsaid'>>;

/** `expectsUsage`: the client wants the usage although its request does not ask for it. */
export function readChatRequest(
  value: Record<string, unknown>,
  source: Source,
  expectsUsage = false,
  tenantId: string | null = null,
): ChatRequest {
  if (!validator.Check(value)) throw refusalOf(value);
  const models = readChain(value);
  const sent = inMessages(value);
  checkAllowed(sent);
  const exact = sent === value ? value : exactWords(value, source);
  const body = exact === value ? sent : inMessages(exact);
  const messages = value.messages ?? none;
  const placed = placedIn(messages);
  const images = value.input ? imagesOfInput(value.input) : placed.flatMap(imageAt);
  for (const { url, param } of images) checkDataUrl(url, param);
  const attached = placed.flatMap(attachmentAt);
  for (const attachment of attached) checkAttachment(attachment);
  const more = unknownFields(value, chatSchema.properties);
  const search = readSearchWish(value);
  const ask: ChatAsk = {
    operation: 'chat',
    models,
    preferences: readPreferences(value),
    stream: value.stream === true,
    outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? null,
    choices: value.n ?? 1,
    needs: readNeeds(body, { images, attached, searches: search !== null }),
    parameters: value.provider?.require_parameters ? parametersOf(body) : none,
    inputBytes: source.bytes.length - madeBytes(messages),
    cachesForHour: cachesForHour(source),
    images,
    user: value.user ?? null,
    search,
    skills: value.skills ?? none,
    addresses: [
      ...attached.flatMap(addressesOf),
      ...addressesIn(more, ''),
      ...placed.flatMap(addressesBeside),
    ],
    ownAccount: firstNeed(attached, keptInAttachment) ?? keptIn(more, '') ?? keptSound(messages),
  };
  return {
    ask,
    body,
    source: body === value ? source : null,
    includeUsage: expectsUsage || asksForUsage(value),
    tenantId,
    unsaid: value.input ? unsaidIn(value) : none,
  };
}

/** A request that names no model is refused for that, whatever else is wrong with it. */
function refusalOf(value: Record<string, unknown>): GatewayError {
  const named = value.model ?? value.models ?? none;
  const isNamed = !Array.isArray(named) || named.length > 0;
  return isNamed ? misfit(chatSchema, value) : noModel();
}

function asksForUsage({ stream_options: options, usage }: SentBody): boolean {
  return options?.include_usage === true || usage?.include === true;
}

const none: readonly never[] = [];

/** The body in chat's own words; the very same object where it already is. */
function inMessages(sent: SentBody): ChatRequest['body'] {
  const given = nestTools(sent);
  const body = given.max_output_tokens ? capped(given) : given;
  const { input, instructions } = body;
  if (body.messages && input) {
    throw invalidRequest('Send either messages or input, not both.', 'input');
  }
  if (input) {
    return { ...inChat(body), messages: inputToMessages(input, instructions ?? undefined) };
  }
  if (!hasMessages(body)) {
    throw invalidRequest('messages is required: a list of messages.', 'messages');
  }
  if (!instructions) return body;
  return { ...body, messages: [{ role: 'system', content: instructions }, ...body.messages] };
}

function capped({ max_output_tokens: most = null, ...body }: ChatBody): ChatBody {
  return body.max_completion_tokens || body.max_tokens ? body : { ...body, max_tokens: most };
}

function hasMessages(body: ChatBody): body is ChatBody & { messages: ChatMessage[] } {
  return Array.isArray(body.messages);
}

type Part = Extract<ChatMessage['content'], readonly unknown[]>[number];

/** A part, and where it stands. */
interface Placed {
  readonly part: Part;
  readonly path: string;
}

/** The parts of all messages that are more than plain text. */
function placedIn(messages: readonly ChatMessage[]): readonly Placed[] {
  const found: Placed[] = [];
  for (let i = 0; i < messages.length; i += 1) {
    const content = messages[i]?.content;
    if (!Array.isArray(content)) continue;
    for (let j = 0; j < content.length; j += 1) {
      const part = content[j];
      if (!part || (part.type === 'text' && !saysMore(part))) continue;
      found.push({ part, path: `messages[${i}].content[${j}]` });
    }
  }
  return found;
}

/** Whether a part has other fields than its type and content. Asked of every part: must be fast. */
function saysMore(part: Part): boolean {
  for (const name in part) if (name !== 'type' && name !== part.type) return true;
  return false;
}

function imageAt({ part, path }: Placed): readonly AddressInput[] {
  if (part.type !== 'image_url') return none;
  return [{ param: `${path}.image_url.url`, url: part.image_url.url }];
}

/** Bytes that count as 2,000 tokens, as many as are reserved for any picture. */
const bytesOfPicture = 6_000;

/** Bytes of model-made pictures above that size: a picture's tokens do not grow with its bytes. */
function madeBytes(messages: readonly ChatMessage[]): number {
  let bytes = 0;
  for (const url of madePictures(messages)) bytes += Math.max(0, url.length - bytesOfPicture);
  return bytes;
}

/** A file or a sound. */
interface Attachment extends Placed {
  readonly part: Extract<Part, { readonly type: 'file' | 'input_audio' }>;
}

function attachmentAt({ part, path }: Placed): readonly Attachment[] {
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
function addressesBeside({ part, path }: Placed): readonly AddressInput[] {
  return saysMore(part) ? addressesIn({ ...part, [part.type]: undefined }, path) : none;
}

/** Clients send a spoken answer back by its id alone; OpenAI keeps the audio. */
function keptSound(messages: readonly ChatMessage[]): OwnAccountNeed | undefined {
  const at = messages.findIndex(
    (message) => 'audio' in message && isText(fieldsOf(message.audio).id),
  );
  return at < 0 ? undefined : keptAt(`messages[${at}].audio.id`);
}

function keptInAttachment({ part, path }: Attachment): OwnAccountNeed | undefined {
  if (part.type === 'input_audio') return keptBytes(part.input_audio.data, `${path}.data`);
  const { file_id: id, file_data: data } = part.file;
  return id ? keptAt(`${path}.file_id`) : keptBytes(data, `${path}.file_data`);
}

interface Given {
  readonly images: readonly AddressInput[];
  readonly attached: readonly Attachment[];
  readonly searches: boolean;
}

function readNeeds(body: ChatRequest['body'], given: Given): ModelNeeds {
  const { images, attached, searches } = given;
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
  return namesGiven(body).filter((name) => !always.has(name));
}
