/**
 * Blocks by which a message adds a tool in the middle of a conversation, or takes one away. A block
 * may hold the full definition of the tool, which then counts like one in `tools`.
 */
import { type Fields, fieldsOf, isObject, objectsIn } from '../../core/json.ts';
import { sameIfUnchanged } from '../ask/body/same-list.ts';
import type { AnyBlock } from './blocks.ts';
import type { Messages, MessagesBody } from './messages-schema.ts';

export type AnyTool = NonNullable<MessagesBody['tools']>[number];

/** The tool that a block defines; undefined for every other block. */
export function addedTool({ type, tool }: Readonly<Fields>): AnyTool | undefined {
  const { definition } = fieldsOf(tool);
  return type === 'tool_addition' && isObject(definition) ? definition : undefined;
}

/** The name of the tool that a block adds or removes; undefined for every other block. */
function nameIn({ type, tool }: Readonly<Fields>): unknown {
  const isChange = type === 'tool_addition' || type === 'tool_removal';
  return isChange ? fieldsOf(tool).name : undefined;
}

/** The changes of tools in a block: a summary of the conversation lists all changes before it. */
export function changesIn(block: AnyBlock): readonly Readonly<Fields>[] {
  return block.type === 'compaction' ? objectsIn(fieldsOf(block).tool_changes) : [block];
}

interface Left {
  readonly messages: Messages;
  /** The paths of what was left out, such as `messages[2].content[0]`. */
  readonly dropped: readonly string[];
}

/** Takes out unwanted tools and blocks that name them: Anthropic refuses the name of no tool. */
export function withoutAdded(
  messages: Messages,
  isUnwanted: (tool: AnyTool) => boolean,
  alsoGone: Iterable<unknown>,
): Left {
  const gone = new Set(alsoGone);
  const dropped: string[] = [];
  const isLeft = (block: Readonly<Fields>, path: string) => {
    const tool = addedTool(block);
    const name = nameIn(block);
    if (!(tool ? isUnwanted(tool) : name !== undefined && gone.has(name))) return true;
    if (tool) gone.add(tool.name);
    dropped.push(path);
    return false;
  };
  const leftOf = (block: AnyBlock, path: string): readonly AnyBlock[] => {
    if (!isLeft(block, path)) return [];
    if (block.type !== 'compaction') return [block];
    const changes = changesIn(block);
    const left = changes.filter((one, at) => isLeft(one, `${path}.tool_changes[${at}]`));
    const changed = { ...block, tool_changes: left };
    return left.length === changes.length ? [block] : [changed];
  };
  const left = messages.flatMap((message, at) => {
    const { content } = message;
    if (!Array.isArray(content) || !content.some(isAboutTools)) return [message];
    const path = `messages[${at}].content`;
    const blocks = content.flatMap((block, place) => leftOf(block, `${path}[${place}]`));
    if (sameIfUnchanged(content, blocks) === content) return [message];
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  return { messages: sameIfUnchanged(messages, left), dropped };
}

/** A cheap first look: most conversations are long and have no such blocks. */
function isAboutTools({ type }: AnyBlock): boolean {
  return type === 'tool_addition' || type === 'tool_removal' || type === 'compaction';
}
