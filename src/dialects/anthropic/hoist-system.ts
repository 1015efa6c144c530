/**
 * Instructions in the middle of a conversation, which Claude Code sends: Anthropic's newer models
 * take them there, its older ones and other servers of this dialect only in front.
 */
import type { Quirks } from '../../config/provider-schema.ts';
import { type AnyBlock, isKnown } from './blocks.ts';
import type { MessagesBody } from './messages-schema.ts';

type Messages = MessagesBody['messages'];

const isInstruction = ({ role }: Messages[number]) => role === 'system';

/** The messages without instructions where those belong in front; else the very same list. */
export function spokenIn(messages: Messages, { system_messages: place }: Quirks): Messages {
  if (place !== 'merge' || !messages.some(isInstruction)) return messages;
  return messages.filter((message) => !isInstruction(message));
}

/** What stands in front, with the instructions of the messages behind it. */
export function withInstructions({ system, messages }: Pick<MessagesBody, 'system' | 'messages'>) {
  const told = messages.filter(isInstruction).flatMap(({ content }) => textsIn(content));
  return [...textsIn(system ?? ''), ...told];
}

function textsIn(content: string | readonly AnyBlock[]): readonly AnyBlock[] {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return blocks.filter((block) => isKnown(block) && block.type === 'text' && block.text.trim());
}
