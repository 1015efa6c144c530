/** What a whole answer and a streamed one to an Anthropic client have in common. */
import type { Citation, FinishReason } from '../../core/answer.ts';
import { randomText } from '../../core/ids.ts';
import { isObject } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';

const stopReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  stop_sequence: 'stop_sequence',
  length: 'max_tokens',
  context: 'model_context_window_exceeded',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  pause: 'pause_turn',
};

interface Stopped {
  readonly reason: FinishReason;
  readonly sequence: string | null;
  readonly hasTools: boolean;
  readonly isRefused: boolean;
}

/** Clients run tools only when the reason says so, and then wait for ever if there are none. */
export function stopFields({ reason, sequence, hasTools, isRefused }: Stopped) {
  const plain = reason === 'stop' || reason === 'tool_calls';
  const word = plain ? (hasTools ? 'tool_use' : 'end_turn') : stopReasons[reason];
  return { stop_reason: isRefused ? 'refusal' : word, stop_sequence: sequence };
}

/** Tied to the request like the id of a chat completion, so that either finds the other. */
export function messageId(completionId: string): string {
  return `msg_${completionId.replace(/^chatcmpl-/, '')}`;
}

/** Clients answer a call by its id. Gives one to a call without, in place; true if it had none. */
export function nameCall(block: Record<string, unknown>): boolean {
  if (block.type !== 'tool_use' || (typeof block.id === 'string' && block.id !== '')) return false;
  block.id = `toolu_${randomText(24)}`;
  return true;
}

/** Anthropic takes nothing but an object as the input of a tool. */
export function toolInput(json: string): Record<string, unknown> {
  if (json.trim() === '') return {};
  const value = parseExact(json);
  if (isObject(value)) return value;
  return value === undefined ? { arguments: json } : { value };
}

export function citationOf({ url, title, quote }: Citation) {
  return {
    type: 'web_search_result_location',
    url,
    title,
    cited_text: quote,
    encrypted_index: '',
  };
}

export function imageBlock(mediaType: string, base64: string) {
  return { type: 'image', source: { type: 'base64', media_type: mediaType, data: base64 } };
}
