/** Converts Responses-style `input`, which clients may send instead of `messages`. */
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../../core/errors.ts';
import { fieldsOf } from '../../../core/json.ts';
import type { UrlInput } from '../../../core/request-info.ts';
import { oneOf, optional, validationError } from '../../../core/schema.ts';
import { imageUrl } from '../../normalize/requests/external-references.ts';
import {
  type AnyItem,
  type AnyPart,
  checkItems,
  type ItemOf,
  imageIn,
  isKnownItem,
  isKnownPart,
  isMessage,
  isResult,
  isTextPart,
  orphanResultAsMessage,
  partsOf,
} from '../../responses/client/input-items.ts';
import { responsesOnlyFields } from '../../responses/client/prompt.ts';
import { rejectState } from '../../responses/client/request.ts';
import { type ResponsesBody, responsesSchema } from '../../responses/client/schema.ts';
import type { ChatBody, ChatMessage, ToolCall } from './schema.ts';

type TextFormat = NonNullable<ResponsesBody['text']>['format'];

/** The types of Responses items that have an equivalent in chat. */
const itemSchema = Type.Object({
  type: optional(
    oneOf(
      'message',
      'function_call',
      'function_call_output',
      'custom_tool_call',
      'custom_tool_call_output',
      'reasoning',
    ),
  ),
});
const partSchema = Type.Object({
  type: oneOf('input_text', 'output_text', 'text', 'refusal', 'input_image'),
});
const imageSchema = Type.Object({ image_url: imageUrl });

const isItem = Compile(itemSchema);
const isPart = Compile(partSchema);
const isImage = Compile(imageSchema);

const optionsSchema = Type.Pick(responsesSchema, [
  'include',
  'max_tool_calls',
  'text',
  'truncation',
]);
const optionsValidator = Compile(optionsSchema);

/** Fields that the chat format lacks and that OpenAI's own chat endpoint rejects. */
const unsupportedFields: ReadonlySet<string> = new Set([
  'background',
  'client_metadata',
  'conversation',
  'include',
  'max_tool_calls',
  'previous_response_id',
  'prompt',
  'text',
  'truncation',
]);

/** Converts the other fields of a body that has `input` to chat's format. */
export function toChatBody(body: ChatBody): ChatBody {
  rejectState(body);
  if (!optionsValidator.Check(body)) throw validationError(optionsSchema, body);
  const format = body.response_format ?? toFormat(body.text?.format);
  const supported = Object.entries(body).filter(([name]) => !unsupportedFields.has(name));
  const formatField = format ? { response_format: format } : {};
  return { ...Object.fromEntries(supported), ...formatField } as ChatBody;
}

/** Returns the names of requested features that the chat format lacks. */
export function unsupportedIn(body: object): readonly string[] {
  const names = optionsValidator.Check(body) ? [...responsesOnlyFields(body)] : [];
  return fieldsOf(body).client_metadata ? [...names, 'client_metadata'] : names;
}

function toFormat(format: TextFormat): ChatBody['response_format'] {
  if (format?.type !== 'json_schema') return format;
  const { type, ...schemaFormat } = format;
  return { type, [type]: schemaFormat };
}

export function inputToMessages(
  input: string | readonly object[],
  instructions: string | undefined,
): readonly ChatMessage[] {
  const messages: ChatMessage[] = instructions ? [{ role: 'system', content: instructions }] : [];
  if (typeof input === 'string') return [...messages, { role: 'user', content: input }];
  for (const item of validated(input)) addItem(messages, item);
  if (messages.length === 0) throw invalidRequest('input has no messages or tool calls.', 'input');
  return messages;
}

function validated(input: readonly object[]): readonly AnyItem[] {
  const items = input.map((item, index) => {
    if (!isItem.Check(item)) throw validationError(itemSchema, item, `input[${index}]`);
    return item;
  });
  checkItems(items);
  for (const [index, item] of items.entries()) {
    for (const { part, path } of partsOf(item, `input[${index}]`)) {
      if (!isPart.Check(part)) throw validationError(partSchema, part, path);
      if (isImagePart(part) && !isImage.Check(part)) throw validationError(imageSchema, part, path);
    }
  }
  return items;
}

/** Adds an item to the messages. Drops encrypted reasoning, which has no equivalent in chat. */
function addItem(messages: ChatMessage[], rawItem: AnyItem): void {
  const item = orphanResultAsMessage(rawItem);
  if (isMessage(item)) addMessage(messages, item);
  else if (!isKnownItem(item)) return;
  else if (item.type === 'function_call' || item.type === 'custom_tool_call') {
    addCall(messages, toCall(item));
  } else if (isResult(item)) {
    messages.push({ role: 'tool', tool_call_id: item.call_id, content: toResult(item.output) });
  }
}

function toCall(item: ItemOf<'function_call'> | ItemOf<'custom_tool_call'>): ToolCall {
  const { call_id: id, name } = item;
  return item.type === 'custom_tool_call'
    ? { id, type: 'custom', custom: { name, input: item.input } }
    : { id, type: 'function', function: { name, arguments: item.arguments } };
}

/**
 * Adds a call to the assistant message of its turn. In `input`, each call of a turn is a separate
 * item.
 */
function addCall(messages: ChatMessage[], call: ToolCall): void {
  const last = messages.at(-1);
  if (last?.role !== 'assistant')
    messages.push({ role: 'assistant', content: null, tool_calls: [call] });
  // Append in place: with thousands of calls, a copy for each would take minutes.
  else if (last.tool_calls) last.tool_calls.push(call);
  else messages[messages.length - 1] = { ...last, tool_calls: [call] };
}

function addMessage(messages: ChatMessage[], { role, content }: ItemOf<'message'>): void {
  if (role === 'user') {
    messages.push({ role, content: typeof content === 'string' ? content : content.map(toPart) });
  } else if (role === 'assistant') addAnswer(messages, content);
  else messages.push({ role: 'system', content: joinTexts(content, '\n\n') });
}

/**
 * Adds an answer. If it follows tool calls, its text is added to the message with the calls,
 * because no message may come between calls and their results.
 */
function addAnswer(messages: ChatMessage[], content: Content): void {
  const text = joinTexts(content, '');
  const refusal = typeof content === 'string' ? '' : content.map(refusalIn).join('');
  const refusalField = refusal === '' ? {} : { refusal };
  const last = messages.at(-1);
  if (last?.role === 'assistant' && last.tool_calls && !last.content) {
    messages[messages.length - 1] = { ...last, content: text, ...refusalField };
  } else messages.push({ role: 'assistant', content: text, ...refusalField });
}

/** Returns a list of parts for a result with images, otherwise a string. */
function toResult(output: Content): string | ReturnType<typeof toPart>[] {
  const hasImages = typeof output !== 'string' && output.some(isImagePart);
  return hasImages ? output.map(toPart) : joinTexts(output, '\n\n');
}

function isImagePart({ type }: AnyPart): boolean {
  return type === 'input_image';
}

function toPart(part: AnyPart) {
  if (!isKnownPart(part) || part.type !== 'input_image') {
    return { type: 'text' as const, text: joinTexts([part], '') };
  }
  const { image_url, detail } = part;
  const url = image_url ?? '';
  return { type: 'image_url' as const, image_url: detail ? { url, detail } : { url } };
}

/** Returns the images in items that `inputToMessages` has validated, with their paths. */
export function imagesOfInput(input: string | readonly AnyItem[]): readonly UrlInput[] {
  if (typeof input === 'string') return [];
  return input.flatMap((item, index) =>
    isMessage(item) && item.role !== 'user'
      ? []
      : [...partsOf(item, `input[${index}]`)].flatMap(imageIn),
  );
}

type Content = ItemOf<'message'>['content'];

function refusalIn(part: AnyPart): string {
  return isKnownPart(part) && part.type === 'refusal' ? part.refusal : '';
}

function joinTexts(content: string | readonly AnyPart[], separator: string): string {
  if (typeof content === 'string') return content;
  return content
    .filter(isTextPart)
    .map(({ text }) => text)
    .join(separator);
}
