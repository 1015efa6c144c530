/** Validates the items of `input`, each against the schema of its type. */
import { type Static, Type } from 'typebox';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import type { UrlInput } from '../../../core/request-info.ts';
import { oneOf, optional } from '../../../core/schema.ts';
import { imageUrl, webUrl } from '../../normalize/requests/external-references.ts';
import { checkBytes, checkImageUrl } from '../../normalize/requests/inline-data.ts';
import { type OneOf, SchemasByType } from '../../normalize/requests/schemas-by-type.ts';
import { checkSearch } from './tools.ts';

const text = { text: Type.String() };
const nonEmpty = Type.String({ minLength: 1 });

export const partSchemas = {
  input_text: Type.Object({ type: Type.Literal('input_text'), ...text }),
  output_text: Type.Object({ type: Type.Literal('output_text'), ...text }),
  /** Some clients send text parts with the type that chat completions use. */
  text: Type.Object({ type: Type.Literal('text'), ...text }),
  refusal: Type.Object({ type: Type.Literal('refusal'), refusal: Type.String() }),
  input_image: Type.Object({
    type: Type.Literal('input_image'),
    image_url: optional(imageUrl),
    file_id: optional(Type.String()),
    detail: optional(Type.String()),
  }),
  input_file: Type.Object({
    type: Type.Literal('input_file'),
    file_data: optional(Type.String()),
    file_url: optional(webUrl),
    file_id: optional(Type.String()),
    filename: optional(Type.String()),
  }),
  input_audio: Type.Object({
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: Type.String(), format: Type.String() }),
  }),
};
export type Part = OneOf<typeof partSchemas>;
export interface AnyPart {
  readonly type: string;
}

const content = Type.Union([Type.String(), Type.Array(Type.Object({ type: Type.String() }))]);
const output = { call_id: nonEmpty, output: content };
const call = { call_id: nonEmpty, name: nonEmpty, namespace: optional(Type.String()) };

export const itemSchemas = {
  message: Type.Object({
    type: optional(Type.Literal('message')),
    role: oneOf('user', 'assistant', 'system', 'developer'),
    content,
  }),
  function_call: Type.Object({
    type: Type.Literal('function_call'),
    ...call,
    arguments: Type.String(),
  }),
  function_call_output: Type.Object({ type: Type.Literal('function_call_output'), ...output }),
  custom_tool_call: Type.Object({
    type: Type.Literal('custom_tool_call'),
    ...call,
    input: Type.String(),
  }),
  custom_tool_call_output: Type.Object({
    type: Type.Literal('custom_tool_call_output'),
    ...output,
  }),
  reasoning: Type.Object({
    type: Type.Literal('reasoning'),
    id: optional(Type.String()),
    summary: optional(Type.Array(Type.Object(text))),
    content: optional(Type.Array(Type.Object(text))),
    encrypted_content: optional(Type.String()),
  }),
};
type ItemSchemas = typeof itemSchemas;
export type Item = OneOf<ItemSchemas>;
export type ItemOf<T extends keyof ItemSchemas> = Static<ItemSchemas[T]>;
export interface AnyItem {
  readonly type?: string | null;
}

const itemKinds = new SchemasByType(itemSchemas);
const partKinds = new SchemasByType(partSchemas);

/** An item without a type is a message. */
export function typeOf({ type }: AnyItem): string {
  return type ?? 'message';
}

/** True if an item's type is known. `checkItems` validates it against its schema. */
export function isKnownItem(item: AnyItem): item is Item {
  return itemKinds.has(typeOf(item));
}

export function isMessage(item: AnyItem): item is ItemOf<'message'> {
  return typeOf(item) === 'message';
}

export type ResultItem = ItemOf<'function_call_output'> | ItemOf<'custom_tool_call_output'>;

/** Checks only the type, because an item may also have the fields of another type. */
export function isResult(item: AnyItem): item is ResultItem {
  const type = typeOf(item);
  return type === 'function_call_output' || type === 'custom_tool_call_output';
}

/**
 * Converts a result without a call to a user message for upstreams other than OpenAI. Codex's
 * desktop app sends one at the start of the input when one task starts another.
 */
export function orphanResultAsMessage(item: AnyItem): AnyItem {
  const hasCall = 'call_id' in item || !('output' in item);
  if (item.type !== 'function_call_output' || hasCall) return item;
  const message = { type: 'message', role: 'user', content: item.output };
  return message;
}

const textTypes = ['input_text', 'output_text', 'text'];

export function isTextPart(part: AnyPart): part is Extract<Part, { readonly text: string }> {
  return textTypes.includes(part.type);
}

export function isKnownPart(part: AnyPart): part is Part {
  return partKinds.has(part.type);
}

/** Throws 400 for the first invalid item. */
export function checkItems(items: readonly AnyItem[]): void {
  for (const [index, rawItem] of items.entries()) {
    const item = orphanResultAsMessage(rawItem);
    const path = `input[${index}]`;
    if (item.type === 'item_reference') {
      const problem = "references a stored item, but this gateway doesn't store responses.";
      throw invalidRequest(`${path} ${problem} Send the full item.`, path);
    }
    itemKinds.check(typeOf(item), item, path);
    checkSearch(item, path);
    for (const { part, path: partPath } of partsOf(item, path)) {
      partKinds.check(part.type, part, partPath);
      if (isKnownPart(part)) checkContent(part, partPath);
    }
  }
}

/** Throws 400 for an image, file, or audio without readable content. */
function checkContent(part: Part, path: string): void {
  switch (part.type) {
    case 'input_image':
      if (part.image_url) checkImageUrl(part.image_url, `${path}.image_url`);
      else if (!part.file_id) throw missingFields(path, 'image_url or file_id');
      return;
    case 'input_file':
      if (part.file_data) checkBytes(part.file_data, `${path}.file_data`);
      else if (!part.file_url && !part.file_id)
        throw missingFields(path, 'file_data, file_url, or file_id');
      return;
    case 'input_audio':
      checkBytes(part.input_audio.data, `${path}.input_audio.data`);
  }
}

function missingFields(path: string, fields: string): GatewayError {
  return invalidRequest(`${path} must have ${fields}.`, path);
}

export interface LocatedPart {
  readonly part: AnyPart;
  readonly path: string;
}

/** Returns the parts of a message or a result with their paths. */
export function* partsOf(item: AnyItem, path: string): Generator<LocatedPart> {
  const field = isResult(item) ? 'output' : 'content';
  const parts = isResult(item) ? item.output : isMessage(item) ? item.content : '';
  if (typeof parts === 'string') return;
  for (const [index, part] of parts.entries()) yield { part, path: `${path}.${field}[${index}]` };
}

/** Returns the URL of the part's image, if it has one. */
export function imageIn({ part, path }: LocatedPart): readonly UrlInput[] {
  if (!isKnownPart(part) || part.type !== 'input_image' || !part.image_url) return [];
  return [{ param: `${path}.image_url`, url: part.image_url }];
}
