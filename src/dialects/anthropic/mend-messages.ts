/**
 * A conversation may have begun with another provider. Whatever that provider left in it and
 * Anthropic would refuse is taken out. If there is nothing to take out, the same list is returned.
 */

import { fieldsOf, itemsOf } from '../../core/json.ts';
import { sameIfUnchanged } from '../ask/body/same-list.ts';
import { plainCallId } from '../ask/tools/call-ids.ts';
import type { Images } from '../dialect.ts';
import { isAnthropics, ownSignature } from '../signature.ts';
import { type AnyBlock, isKnown, isMade } from './blocks.ts';
import type { Messages } from './messages-schema.ts';
import { imageSource } from './write-blocks.ts';

interface Mended {
  readonly messages: Messages;
  /** Thoughts that are not Anthropic's were taken out. */
  readonly lostThoughts: boolean;
  /** Pictures that another provider made were taken out. */
  readonly lostPictures: boolean;
}

export function mendMessages(messages: Messages, images: Images): Mended {
  let lostThoughts = false;
  let lostPictures = false;
  const mended = messages.flatMap((message) => {
    const { content } = message;
    const isAssistants = message.role === 'assistant';
    if (!Array.isArray(content) && typeof content !== 'string') return [message];
    if (typeof content === 'string') return isAssistants && !isSaid(content) ? [] : [message];
    // A user's message of blank texts only is not emptied: Anthropic is to refuse it, so that the
    // user learns of the mistake.
    const dropsEmpty = isAssistants || !content.every(isEmpty);
    const said = content.filter((block) => !isMade(block, message.role));
    const blocks = sameIfUnchanged(content, mendBlocks(said, dropsEmpty, images));
    if (blocks === content) return [message];
    lostPictures ||= said.length < content.length;
    lostThoughts ||= thoughtsIn(blocks) < thoughtsIn(content);
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  return { messages: sameIfUnchanged(messages, mended), lostThoughts, lostPictures };
}

function isSaid(text: string): boolean {
  return text.trim() !== '';
}

function isEmpty(block: AnyBlock): boolean {
  return isKnown(block) && block.type === 'text' && !isSaid(block.text);
}

function thoughtsIn(blocks: readonly AnyBlock[]): number {
  return blocks.filter(({ type }) => type.endsWith('thinking')).length;
}

function mendBlocks(blocks: AnyBlock[], dropsEmpty: boolean, images: Images): AnyBlock[] {
  return sameIfUnchanged(
    blocks,
    blocks.flatMap((block) => mendBlock(block, dropsEmpty, images)),
  );
}

function mendBlock(block: AnyBlock, dropsEmpty: boolean, images: Images): readonly AnyBlock[] {
  if (!isKnown(block)) return [block];
  switch (block.type) {
    case 'thinking':
      return ownSignature('anthropic', block.signature ?? undefined) === undefined ? [] : [block];
    case 'redacted_thinking':
      return isAnthropics(block.data) ? [block] : [];
    case 'text':
      return dropsEmpty && !isSaid(block.text) ? [] : [withoutForeignSources(block)];
    case 'tool_use': {
      const id = plainCallId(block.id);
      const mended = { ...block, id };
      return id === block.id ? [block] : [mended];
    }
    case 'tool_result': {
      const id = plainCallId(block.tool_use_id);
      const { content } = block;
      // A tool's result may be empty.
      const inside = Array.isArray(content) ? mendBlocks(content, true, images) : content;
      if (id === block.tool_use_id && inside === content) return [block];
      const mended = { ...block, tool_use_id: id, content: inside?.length ? inside : undefined };
      return [mended];
    }
    case 'document': {
      const { source } = block;
      if (source.type !== 'content' || !Array.isArray(source.content)) return [block];
      const inside = mendBlocks(source.content, dropsEmpty, images);
      const mended = { ...block, source: { ...source, content: inside } };
      return inside === source.content ? [block] : [mended];
    }
    case 'image': {
      const fetched = block.source.type === 'url' ? images.get(block.source.url) : undefined;
      if (fetched === undefined) return [block];
      const shown = { ...block, source: imageSource(fetched) };
      return [shown];
    }
  }
}

/**
 * Citations from our own search, or another provider's, lack the index that Anthropic requires.
 */
function withoutForeignSources(block: AnyBlock): AnyBlock {
  const cited = itemsOf(fieldsOf(block).citations);
  const own = cited.filter((source) => fieldsOf(source).encrypted_index !== '');
  if (own.length === cited.length) return block;
  const mended = { ...block, citations: own.length > 0 ? own : undefined };
  return mended;
}
