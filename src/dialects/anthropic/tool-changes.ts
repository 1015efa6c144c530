/**
 * Blocks by which a message adds a tool in the middle of a conversation, or takes one away. What
 * they add may be described in them as a whole, so it is a tool like those beside the messages.
 */
import { isObject } from '../../core/json.ts';
import { sameIfUnchanged } from '../ask/same-list.ts';
import type { AnyBlock } from './blocks.ts';
import type { MessagesBody } from './messages-schema.ts';

type Messages = MessagesBody['messages'];
export type AnyTool = NonNullable<MessagesBody['tools']>[number];

/** The tool that a block brings along; undefined for every other block. */
export function addedTool(block: AnyBlock): AnyTool | undefined {
  if (block.type !== 'tool_addition' || !('tool' in block)) return undefined;
  const { tool } = block;
  return isObject(tool) && isObject(tool.definition) ? tool.definition : undefined;
}

/** The name of a tool that a block speaks of; undefined for blocks about something else. */
function nameIn(block: AnyBlock): unknown {
  const isChange = block.type === 'tool_addition' || block.type === 'tool_removal';
  if (!isChange || !('tool' in block) || !isObject(block.tool)) return undefined;
  return block.tool.name;
}

interface Left {
  readonly messages: Messages;
  /** As `messages[2].content[0]`. */
  readonly dropped: readonly string[];
}

/** Without such tools, and without what names them: Anthropic refuses a name of no tool. */
export function withoutAdded(
  messages: Messages,
  isUnwanted: (tool: AnyTool) => boolean,
  alsoGone: Iterable<unknown>,
): Left {
  const gone = new Set(alsoGone);
  const dropped: string[] = [];
  const isLeft = (block: AnyBlock, path: string) => {
    const tool = addedTool(block);
    const name = nameIn(block);
    if (!(tool ? isUnwanted(tool) : name !== undefined && gone.has(name))) return true;
    if (tool) gone.add(tool.name);
    dropped.push(path);
    return false;
  };
  const left = messages.flatMap((message, at) => {
    const { role, content } = message;
    if (role !== 'system' || !Array.isArray(content)) return [message];
    const path = `messages[${at}].content`;
    const blocks = content.filter((block, place) => isLeft(block, `${path}[${place}]`));
    if (blocks.length === content.length) return [message];
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  return { messages: sameIfUnchanged(messages, left), dropped };
}
