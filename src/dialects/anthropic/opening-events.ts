import { type Fields, objectsIn } from '../../core/json.ts';
import type { SseMessage } from '../dialect.ts';
import { charactersOfBlock } from './characters.ts';

/**
 * What stands in the opening of a message, as the events that usually tell it. Where a program that
 * runs at Anthropic goes on to call tools, nothing but the last event follows.
 */
export function openingEvents({
  content,
  stop_reason,
  stop_sequence = null,
  usage,
}: Fields): readonly SseMessage[] {
  // Some servers show the empty block that is to come.
  const blocks = objectsIn(content).filter((block) => charactersOfBlock(block) > 0);
  const told = blocks.flatMap((content_block, index) => [
    eventOf({ type: 'content_block_start', index, content_block }),
    eventOf({ type: 'content_block_stop', index }),
  ]);
  if (typeof stop_reason !== 'string') return told;
  const delta = { stop_reason, stop_sequence };
  return [...told, eventOf({ type: 'message_delta', delta, usage })];
}

function eventOf(fields: Readonly<Fields> & { readonly type: string }): SseMessage {
  return { event: fields.type, data: JSON.stringify(fields) };
}
