import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { ImageInput } from '../../core/chat.ts';
import { invalidRequest } from '../../core/errors.ts';
import { misfit } from '../../core/misfit.ts';
import { optional } from '../../core/schema-builders.ts';
import { imageAddress } from '../ask/address-schema.ts';
import type { ChatMessage } from './chat-schema.ts';

/** Responses-style `input` in place of `messages`: the same conversation, spelt as items. */

const textPart = (type: string) => Type.Object({ type: Type.Literal(type), text: Type.String() });

const part = Type.Union([
  textPart('input_text'),
  textPart('output_text'),
  textPart('text'),
  Type.Object({ type: Type.Literal('refusal'), refusal: Type.String() }),
  Type.Object({
    type: Type.Literal('input_image'),
    image_url: imageAddress,
    detail: optional(Type.String()),
  }),
]);

const itemSchema = Type.Object({
  type: Type.Optional(Type.Enum(['message', 'function_call', 'function_call_output', 'reasoning'])),
});
const messageItem = Type.Object({
  role: Type.Enum(['user', 'assistant', 'system', 'developer']),
  content: Type.Union([Type.String(), Type.Array(part)]),
});
const callItem = Type.Object({
  call_id: Type.String(),
  name: Type.String(),
  arguments: Type.String(),
});
const outputItem = Type.Object({
  call_id: Type.String(),
  output: Type.Union([Type.String(), Type.Array(part)]),
});

const isItem = Compile(itemSchema);
const isMessage = Compile(messageItem);
const isCall = Compile(callItem);
const isOutput = Compile(outputItem);

interface Part {
  readonly type: string;
  readonly text?: string;
  readonly refusal?: string;
  readonly image_url?: string;
  readonly detail?: string | null;
}

export function inputToMessages(
  input: string | readonly object[],
  instructions: string | undefined,
): readonly ChatMessage[] {
  const messages: ChatMessage[] = instructions ? [{ role: 'system', content: instructions }] : [];
  if (typeof input === 'string') return [...messages, { role: 'user', content: input }];
  input.forEach((item, i) => {
    addItem(messages, item, `input[${i}]`);
  });
  if (messages.length === 0) throw invalidRequest('input must have at least one item.', 'input');
  return messages;
}

function addItem(messages: ChatMessage[], item: object, at: string): void {
  if (!isItem.Check(item)) throw misfit(itemSchema, item, at);
  switch (item.type) {
    case 'reasoning':
      // Encrypted reasoning belongs to the Responses API; chat has no place for it.
      return;
    case 'function_call':
      if (!isCall.Check(item)) throw misfit(callItem, item, at);
      addCall(messages, item);
      return;
    case 'function_call_output':
      if (!isOutput.Check(item)) throw misfit(outputItem, item, at);
      messages.push({
        role: 'tool',
        tool_call_id: item.call_id,
        content: toResult(item.output),
      });
      return;
    default:
      if (!isMessage.Check(item)) throw misfit(messageItem, item, at);
      addMessage(messages, item);
  }
}

/** Calls of one turn are separate items here and one assistant message in chat. */
function addCall(
  messages: ChatMessage[],
  item: { call_id: string; name: string; arguments: string },
): void {
  const call = {
    id: item.call_id,
    type: 'function' as const,
    function: { name: item.name, arguments: item.arguments },
  };
  const last = messages.at(-1);
  if (last?.role === 'assistant') {
    messages[messages.length - 1] = { ...last, tool_calls: [...(last.tool_calls ?? []), call] };
  } else messages.push({ role: 'assistant', content: null, tool_calls: [call] });
}

function addMessage(
  messages: ChatMessage[],
  { role, content }: { role: string; content: string | Part[] },
): void {
  if (role === 'user') {
    messages.push({ role, content: typeof content === 'string' ? content : content.map(toPart) });
  } else if (role === 'assistant') addAnswer(messages, content);
  else messages.push({ role: 'system', content: textOf(content, '\n\n') });
}

/** What is said after calls belongs to their message: nothing may stand between it and results. */
function addAnswer(messages: ChatMessage[], content: string | Part[]): void {
  const text = textOf(content, '');
  const refusal = typeof content === 'string' ? '' : content.map((p) => p.refusal ?? '').join('');
  const refused = refusal === '' ? {} : { refusal };
  const last = messages.at(-1);
  if (last?.role === 'assistant' && last.tool_calls && !last.content) {
    messages[messages.length - 1] = { ...last, content: text, ...refused };
  } else messages.push({ role: 'assistant', content: text, ...refused });
}

/** Pictures stand in a list with the words around them; words alone are a text. */
function toResult(output: string | Part[]): string | ReturnType<typeof toPart>[] {
  const hasPictures = typeof output !== 'string' && output.some(isPicture);
  return hasPictures ? output.map(toPart) : textOf(output, '\n\n');
}

function isPicture({ type }: Part): boolean {
  return type === 'input_image';
}

function toPart(part: Part) {
  const { text = '', image_url: url = '', detail } = part;
  if (!isPicture(part)) return { type: 'text' as const, text };
  const image = detail ? { url, detail } : { url };
  return { type: 'image_url' as const, image_url: image };
}

/** The images among items that `inputToMessages` has found sound, where the client wrote them. */
export function imagesOfInput(input: string | readonly object[]): readonly ImageInput[] {
  if (typeof input === 'string') return [];
  return input.flatMap((item, i) => {
    if (isMessage.Check(item))
      return item.role === 'user' ? images(item.content, `[${i}].content`) : [];
    return isOutput.Check(item) ? images(item.output, `[${i}].output`) : [];
  });
}

function images(parts: string | Part[], path: string): readonly ImageInput[] {
  if (typeof parts === 'string') return [];
  return parts.flatMap((part, j) =>
    isPicture(part) ? [{ param: `input${path}[${j}].image_url`, url: part.image_url ?? '' }] : [],
  );
}

function textOf(content: string | Part[], between: string): string {
  if (typeof content === 'string') return content;
  return content.flatMap(({ text }) => text ?? []).join(between);
}
