/** The turns of a dialogue as Anthropic's `system` and `messages`. */
import type { Dialogue, Turn } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import { type Block, writeAssistantPart, writeText, writeUserPart } from './write-blocks.ts';

export interface Message {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: readonly Block[];
}

export interface WrittenTurns {
  readonly system: readonly Block[];
  readonly messages: readonly Message[];
}

/** Said in the user's place where Anthropic wants to hear from one. */
const goOn: Block = { type: 'text', text: 'Continue.' };

export function writeTurns(
  { turns }: Dialogue,
  target: Target,
  isThinking: boolean,
  dropped: Set<string>,
): WrittenTurns {
  const system: Block[] = [];
  const messages: Message[] = [];
  for (const turn of turns) {
    const content = writeTurn(turn, target, dropped);
    if (content.length === 0) continue;
    // Older models know one place for instructions only.
    const isInline = target.quirks.system_messages === 'keep' && messages.length > 0;
    if (turn.role === 'system' && !isInline) system.push(...content);
    else messages.push({ role: turn.role, content });
  }
  const merged = merge(messages);
  if (merged[0]?.role !== 'user') merged.unshift({ role: 'user', content: [goOn] });
  return { system, messages: endWell(merged, target, isThinking) };
}

function writeTurn(turn: Turn, { images }: Target, dropped: Set<string>): readonly Block[] {
  switch (turn.role) {
    case 'system':
      return turn.parts.flatMap(writeText);
    case 'assistant':
      return turn.parts.flatMap(writeAssistantPart);
    case 'user':
      return turn.parts.flatMap((part) => writeUserPart(part, images, dropped));
  }
}

/** All results of one turn stand first in one message, or Anthropic does not find them. */
function merge(messages: readonly Message[]): Message[] {
  const merged: Message[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    if (last?.role !== message.role) merged.push(message);
    else merged[merged.length - 1] = join(last, message);
  }
  return merged;
}

function join(first: Message, second: Message): Message {
  const content = [...first.content, ...second.content];
  const results = content.filter(({ type }) => type === 'tool_result');
  const rest = content.filter(({ type }) => type !== 'tool_result');
  return { role: first.role, content: [...results, ...rest] };
}

/**
 * A conversation that ends with the assistant asks for its continuation. Models that think
 * adaptively, and all that think at the moment, want a user's word for that; the others go on from
 * the last letter, which must not be a space.
 */
function endWell(messages: readonly Message[], target: Target, isThinking: boolean) {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return messages;
  if (isThinking || target.thinking === 'adaptive') {
    return [...messages, { role: 'user' as const, content: [goOn] }];
  }
  const block = last.content.at(-1);
  if (block?.type !== 'text' || typeof block.text !== 'string') return messages;
  const content = [...last.content.slice(0, -1), { ...block, text: block.text.trimEnd() }];
  return [...messages.slice(0, -1), { role: last.role, content }];
}
