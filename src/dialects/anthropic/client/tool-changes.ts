import { fieldsOf, isObject, type JsonObject, objectsIn } from '../../../core/json.ts';
import { sameIfUnchanged } from '../../normalize/requests/edit-body.ts';
import type { AnyBlock, Messages, MessagesBody } from './schema.ts';

// Blocks that add or remove a tool in the middle of a conversation. A block may contain the tool's
// full definition. That definition is treated like one in `tools`.

export type AnyTool = NonNullable<MessagesBody['tools']>[number];

/** Returns the tool that a block defines; undefined for other blocks. */
export function addedTool({ type, tool }: Readonly<JsonObject>): AnyTool | undefined {
  const { definition } = fieldsOf(tool);
  return type === 'tool_addition' && isObject(definition) ? definition : undefined;
}

/** Returns the name of the tool that a block adds or removes; undefined for other blocks. */
function nameIn({ type, tool }: Readonly<JsonObject>): unknown {
  const isChange = type === 'tool_addition' || type === 'tool_removal';
  return isChange ? fieldsOf(tool).name : undefined;
}

/** Returns the tool changes in a block. A compaction block lists all changes before it. */
export function changesIn(block: AnyBlock): readonly Readonly<JsonObject>[] {
  return block.type === 'compaction' ? objectsIn(fieldsOf(block).tool_changes) : [block];
}

interface RemainingMessages {
  readonly messages: Messages;
  /** The paths of the dropped blocks, such as `messages[2].content[0]`. */
  readonly dropped: readonly string[];
}

/**
 * Drops excluded tools, and also blocks that refer to them by name, because Anthropic would reject
 * those.
 */
export function withoutExcludedTools(
  messages: Messages,
  isExcluded: (tool: AnyTool) => boolean,
  excludedNames: Iterable<unknown>,
): RemainingMessages {
  const removed = new Set(excludedNames);
  const dropped: string[] = [];
  const keepsTool = (block: Readonly<JsonObject>, path: string) => {
    const tool = addedTool(block);
    const name = nameIn(block);
    if (!(tool ? isExcluded(tool) : name !== undefined && removed.has(name))) return true;
    if (tool) removed.add(tool.name);
    dropped.push(path);
    return false;
  };
  const remainingOf = (block: AnyBlock, path: string): readonly AnyBlock[] => {
    if (!keepsTool(block, path)) return [];
    if (block.type !== 'compaction') return [block];
    const changes = changesIn(block);
    const left = changes.filter((change, index) =>
      keepsTool(change, `${path}.tool_changes[${index}]`),
    );
    const changed = { ...block, tool_changes: left };
    return left.length === changes.length ? [block] : [changed];
  };
  const left = messages.flatMap((message, index) => {
    const { content } = message;
    if (!Array.isArray(content) || !content.some(isAboutTools)) return [message];
    const path = `messages[${index}].content`;
    const blocks = content.flatMap((block, blockIndex) =>
      remainingOf(block, `${path}[${blockIndex}]`),
    );
    if (sameIfUnchanged(content, blocks) === content) return [message];
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  return { messages: sameIfUnchanged(messages, left), dropped };
}

/** A cheap check that runs first, because conversations are long and rarely have such blocks. */
function isAboutTools({ type }: AnyBlock): boolean {
  return type === 'tool_addition' || type === 'tool_removal' || type === 'compaction';
}
