/** The turns of a dialogue as Anthropic's `system` and `messages`. */
import type { Dialogue, Turn } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import { type Block, writeAssistantPart, writeText, writeUserPart } from './write-blocks.ts';

interface Message {
  readonly role: Turn['role'];
  readonly content: readonly Block[];
}

interface WrittenTurns {
  readonly system: readonly Block[];
  readonly messages: readonly Message[];
}

/** Stands for the user where Anthropic insists on a message of one. */
const pleaseContinue: Block = { type: 'text', text: 'Continue.' };

export function writeTurns(
  { turns }: Dialogue,
  target: Target,
  isThinking: boolean,
  dropped: Set<string>,
): WrittenTurns {
  const system: Block[] = [];
  const sides: { readonly role: Turn['role']; readonly content: Block[] }[] = [];
  for (const turn of turns) {
    const content = writeTurn(turn, target, dropped);
    if (content.length === 0) continue;
    const last = sides.at(-1);
    // Older models take instructions in one place only.
    const isInline = target.quirks.system_messages === 'keep' && last !== undefined;
    // Neighbours of one side are one message: each block is moved once, however many there are.
    if (turn.role === 'system' && !isInline) for (const block of content) system.push(block);
    else if (last?.role === turn.role) for (const block of content) last.content.push(block);
    else sides.push({ role: turn.role, content: [...content] });
  }
  const messages: Message[] = sides.map(({ role, content }) => ({
    role,
    content: role === 'user' ? resultsFirst(content) : content,
  }));
  if (messages[0]?.role !== 'user') messages.unshift({ role: 'user', content: [pleaseContinue] });
  return { system, messages: endWell(messages, target, isThinking) };
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
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const results = content.filter(({ type }) => type === 'tool_result');
  return [...results, ...content.filter(({ type }) => type !== 'tool_result')];
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
    return [...messages, { role: 'user' as const, content: [pleaseContinue] }];
  }
  const block = last.content.at(-1);
  if (block?.type !== 'text' || typeof block.text !== 'string') return messages;
  const content = [...last.content.slice(0, -1), { ...block, text: block.text.trimEnd() }];
  return [...messages.slice(0, -1), { role: last.role, content }];
}
