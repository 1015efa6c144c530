/**
 * A conversation may have begun with another provider. What that one left in it and Anthropic would
 * refuse is taken out; a conversation without such things is answered as the very same list.
 */
import { ownSignature } from '../../core/signature.ts';
import { plainCallId } from '../ask/call-ids.ts';
import { sameIfUnchanged } from '../ask/same-list.ts';
import { type AnyBlock, isKnown } from './blocks.ts';
import type { MessagesBody } from './messages-schema.ts';
import { type Images, imageSource } from './write-blocks.ts';

type Messages = MessagesBody['messages'];

interface Mended {
  readonly messages: Messages;
  /** Thoughts that are not Anthropic's were taken out. */
  readonly lostThoughts: boolean;
}

export function mendMessages(messages: Messages, images: Images): Mended {
  let lostThoughts = false;
  const mended = messages.flatMap((message) => {
    const { content } = message;
    if (typeof content === 'string') return [message];
    const blocks = mendBlocks(content, message.role, images);
    if (blocks === content) return [message];
    lostThoughts ||= thoughtsIn(blocks) < thoughtsIn(content);
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  return { messages: sameIfUnchanged(messages, mended), lostThoughts };
}

function thoughtsIn(blocks: readonly AnyBlock[]): number {
  return blocks.filter(({ type }) => type === 'thinking').length;
}

function mendBlocks(blocks: AnyBlock[], role: string, images: Images): AnyBlock[] {
  return sameIfUnchanged(
    blocks,
    blocks.flatMap((block) => mendBlock(block, role, images)),
  );
}

function mendBlock(block: AnyBlock, role: string, images: Images): readonly AnyBlock[] {
  if (!isKnown(block)) return [block];
  switch (block.type) {
    case 'thinking':
      return ownSignature('anthropic', block.signature ?? undefined) === undefined ? [] : [block];
    case 'text':
      return role === 'assistant' && block.text.trim() === '' ? [] : [block];
    case 'tool_use': {
      const id = plainCallId(block.id);
      const mended = { ...block, id };
      return id === block.id ? [block] : [mended];
    }
    case 'tool_result': {
      const id = plainCallId(block.tool_use_id);
      const { content } = block;
      const inside = Array.isArray(content) ? mendBlocks(content, role, images) : content;
      if (id === block.tool_use_id && inside === content) return [block];
      const mended = { ...block, tool_use_id: id, content: inside };
      return [mended];
    }
    case 'document': {
      const { source } = block;
      if (source.type !== 'content' || !Array.isArray(source.content)) return [block];
      const inside = mendBlocks(source.content, role, images);
      const mended = { ...block, source: { ...source, content: inside } };
      return inside === source.content ? [block] : [mended];
    }
    case 'image': {
      if (block.source.type !== 'url' || !images.has(block.source.url)) return [block];
      const shown = { ...block, source: imageSource(block.source.url, images) };
      return [shown];
    }
    default:
      return [block];
  }
}
