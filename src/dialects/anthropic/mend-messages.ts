/**
 * A conversation may have begun with another provider. What that one left in it and Anthropic would
 * refuse is taken out; a conversation without such things is answered as the very same list.
 */
import { ownSignature } from '../../core/signature.ts';
import { type AnyBlock, isKnown, type KnownBlock } from './blocks.ts';
import type { MessagesBody } from './messages-schema.ts';
import { callId, type Images, imageSource } from './write-blocks.ts';

type Messages = MessagesBody['messages'];

export interface Mended {
  readonly messages: Messages;
  /** Thoughts that are not Anthropic's were taken out. */
  readonly lostThoughts: boolean;
}

export function mendMessages(messages: Messages, images: Images): Mended {
  let lostThoughts = false;
  const mended = messages.flatMap((message) => {
    const { content } = message;
    if (typeof content === 'string') return [message];
    const blocks = content.flatMap((block) => mendBlock(block, message.role, images));
    if (blocks.every((block, at) => block === content[at]) && blocks.length === content.length) {
      return [message];
    }
    lostThoughts ||= thoughtsIn(blocks) < thoughtsIn(content);
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  const isSame =
    mended.length === messages.length && mended.every((message, at) => message === messages[at]);
  return { messages: isSame ? messages : mended, lostThoughts };
}

function thoughtsIn(blocks: readonly AnyBlock[]): number {
  return blocks.filter(({ type }) => type === 'thinking').length;
}

type Blocks = readonly (AnyBlock | KnownBlock)[];

function mendBlock(block: AnyBlock, role: string, images: Images): Blocks {
  if (!isKnown(block)) return [block];
  switch (block.type) {
    case 'thinking':
      return ownSignature('anthropic', block.signature ?? undefined) === undefined ? [] : [block];
    case 'text':
      return role === 'assistant' && block.text.trim() === '' ? [] : [block];
    case 'tool_use': {
      const id = callId(block.id);
      return id === block.id ? [block] : [{ ...block, id }];
    }
    case 'tool_result': {
      const id = callId(block.tool_use_id);
      const { content } = block;
      const inside = Array.isArray(content)
        ? content.flatMap((inner) => mendBlock(inner, role, images))
        : content;
      const isSame =
        !Array.isArray(content) || content.every((inner, at) => inner === inside?.[at]);
      if (id === block.tool_use_id && isSame) return [block];
      return [{ ...block, tool_use_id: id, ...(isSame ? {} : { content: inside }) }];
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
