import { type Fields, objectsIn } from '../../core/json.ts';
import type { SseMessage } from '../dialect.ts';
import { charactersOfBlock } from './characters.ts';

/**
 * The content of a `message_start`, as the events that usually tell it. When a program that runs
 * at Anthropic continues and calls tools, all content is there and only the last event follows.
 */
export function openingEvents({
  content,
  stop_reason,
  stop_sequence = null,
  usage,
}: Fields): readonly SseMessage[] {
  // Some servers put the first block here while it is still empty, and tell it again later.
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
