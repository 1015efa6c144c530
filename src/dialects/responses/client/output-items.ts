/** Writes the items of a response's output. */
import { fieldsOf } from '../../../core/json.ts';
import { parseArguments } from '../../normalize/exact-json.ts';
import { freeFormInput } from '../../normalize/requests/tools.ts';
import type { JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import type { ClientTool } from './tools.ts';
import { searchArguments } from './tools.ts';

export interface ItemPosition {
  readonly id: string;
  readonly index: number;
}

export type Content =
  | {
      readonly type: 'output_text';
      readonly annotations: object[];
      readonly logprobs: readonly [];
      text: string;
    }
  | { readonly type: 'refusal'; refusal: string };

export interface MessageItem extends ItemPosition {
  readonly content: Content[];
}

export interface ReasoningItem extends ItemPosition {
  text: string;
  encrypted: string;
}

export interface CallItem extends ItemPosition {
  readonly callId: string;
  readonly clientTool: ClientTool;
  readonly end: JsonEndScanner;
  json: string;
}

export type Status = 'in_progress' | 'completed' | 'incomplete';

export const idPrefixes: Readonly<Record<ClientTool['type'], string>> = {
  function: 'fc',
  custom: 'ctc',
  tool_search: 'tsc',
};

/**
 * Returns true if a call whose JSON is complete can have no more input. Free-form text that arrives
 * without its JSON wrapper may continue even if it looks like complete JSON.
 */
export function isCompleteCall({ clientTool, json }: CallItem): boolean {
  return clientTool.type !== 'custom' || typeof fieldsOf(parseArguments(json)).input === 'string';
}

export function itemPosition({ id, index }: ItemPosition) {
  return { item_id: id, output_index: index };
}

export function contentPosition(message: MessageItem) {
  return { ...itemPosition(message), content_index: message.content.length - 1 };
}

export function summaryOf(text: string) {
  return { type: 'summary_text', text };
}

export function writeMessage({ id, content }: MessageItem, status: Status): object {
  return { id, type: 'message', role: 'assistant', status, content: [...content] };
}

export function writeReasoning({ id, text, encrypted }: ReasoningItem): object {
  return {
    id,
    type: 'reasoning',
    summary: text === '' ? [] : [summaryOf(text)],
    ...(encrypted === '' ? {} : { encrypted_content: encrypted }),
  };
}

export function writeCall({ id, callId, clientTool, json }: CallItem, status: Status): object {
  const { type, name, namespace } = clientTool;
  const named = namespace === undefined ? { name } : { name, namespace };
  if (type === 'custom') {
    const input = status === 'in_progress' ? '' : freeFormInput(json);
    return { id, type: 'custom_tool_call', status, call_id: callId, ...named, input };
  }
  if (type === 'tool_search') {
    const call = { id, type: 'tool_search_call', status, call_id: callId, execution: 'client' };
    return { ...call, arguments: searchArguments(json) };
  }
  return { id, type: 'function_call', status, call_id: callId, ...named, arguments: json };
}
