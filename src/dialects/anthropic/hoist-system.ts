/**
 * Claude Code sends instructions in the middle of a conversation. Anthropic's newer models take
 * them there; its older models and other servers of this dialect take them only in `system`.
 */
import type { Quirks } from '../../config/provider-schema.ts';
import { type AnyBlock, blocksIn, isKnown } from './blocks.ts';
import type { Messages, MessagesBody } from './messages-schema.ts';

const isInstruction = ({ role }: Messages[number]) => role === 'system';

/** The messages without instructions if those must go into `system`; else the very same list. */
export function spokenIn(messages: Messages, { system_messages: place }: Quirks): Messages {
  if (place !== 'merge' || !messages.some(isInstruction)) return messages;
  return messages.filter((message) => !isInstruction(message));
}

type Spoken = Pick<MessagesBody, 'system' | 'messages'>;

/** The `system` to send: the client's, then the instructions that `spoken` leaves out. */
export function systemOf({ system, messages }: Spoken, spoken: Messages): Spoken['system'] {
  if (spoken === messages) return withoutBlank(system);
  const told = messages.filter(isInstruction).flatMap(({ content }) => textsIn(content ?? ''));
  const all = [...textsIn(system ?? ''), ...told];
  return all.length > 0 ? all : undefined;
}

/** The names of what `system` cannot hold: `messages.tool_addition`, `messages.clear_at`. */
export function unsaidIn(messages: Messages, spoken: Messages): readonly string[] {
  if (spoken === messages) return [];
  const names = messages.filter(isInstruction).flatMap(({ role: _, content, ...more }) => {
    const types = blocksIn(content ?? '').map(({ type }) => type);
    return [...types.filter((type) => type !== 'text'), ...Object.keys(more)];
  });
  return [...new Set(names)].map((name) => `messages.${name}`);
}

/** Anthropic refuses a blank text. */
function withoutBlank(system: Spoken['system']): Spoken['system'] {
  if (typeof system === 'string') return system.trim() === '' ? undefined : system;
  const said = system?.filter(hasWords) ?? [];
  if (said.length === system?.length) return system;
  return said.length > 0 ? said : undefined;
}

function hasWords({ text }: { readonly text: string }): boolean {
  return text.trim() !== '';
}

function textsIn(content: string | readonly AnyBlock[]) {
  const texts = blocksIn(content).flatMap((block) =>
    isKnown(block) && block.type === 'text' ? [block] : [],
  );
  return texts.filter(hasWords);
}
