/** What a whole answer and a streamed one to an Anthropic client have in common. */
import type { Citation, FinishReason } from '../../core/answer.ts';
import { type Fields, isObject, isText, textOf } from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import { toolInput } from './tool-input.ts';

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

/** Proxies that speak this dialect may leave OpenAI's words in it. */
const foreignReasons: ReadonlyMap<string, string> = new Map([
  ['stop', 'end_turn'],
  ['tool_calls', 'end_turn'],
  ['length', 'max_tokens'],
  ['content_filter', 'refusal'],
]);

/** The same of an upstream that says it in Anthropic's own words. */
export function ownStopReason(word: string, hasTools: boolean): string {
  const reason = foreignReasons.get(word) ?? word;
  return reason === 'end_turn' && hasTools ? 'tool_use' : reason;
}

/** What the deltas of a block bring, by its type. */
export const wordsByBlock: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['text', ['text']],
  ['thinking', ['thinking', 'signature']],
]);

/**
 * Gives a block what Anthropic's own always has and some servers leave out, in place: the id and
 * the input of a call, and the words, to which clients add others unseen. True if something was
 * missing.
 */
export function completeBlock(block: Fields): boolean {
  const names = wordsByBlock.get(block.type) ?? [];
  const missing = names.filter((name) => typeof block[name] !== 'string');
  for (const name of missing) block[name] = '';
  if (block.type !== 'tool_use' || (isText(block.id) && isObject(block.input))) {
    return missing.length > 0;
  }
  if (!isText(block.id)) block.id = newCallId('toolu');
  if (!isObject(block.input)) block.input = toolInput(textOf(block.input));
  return true;
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
