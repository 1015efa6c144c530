/**
 * The signature of a thought, as a Responses client keeps it: in `encrypted_content`, whoever
 * signed it. OpenAI's own go unmarked there, since OpenAI's clients send them unchanged; so all
 * others need a mark, Anthropic's too.
 */
import type { ReasoningPart } from '../../core/dialogue.ts';
import { markSignature, ownSignature } from '../signature.ts';
import type { ItemOf } from './input-items.ts';

const anthropicMark = 'anthropic:';
const redactedMark = 'redacted:';
const geminiMark = markSignature('gemini', '');

export function writeSignature(signature: string): string {
  const own = ownSignature('anthropic', signature);
  return own === undefined ? signature : anthropicMark + own;
}

export function writeRedacted(data: string): string {
  return redactedMark + data;
}

type ReasoningItem = ItemOf<'reasoning'>;

export function readSignature({
  id,
  encrypted_content: content,
}: ReasoningItem): Pick<ReasoningPart, 'signature' | 'redacted'> {
  if (!content) return {};
  if (content.startsWith(anthropicMark)) return { signature: content.slice(anthropicMark.length) };
  if (content.startsWith(redactedMark)) return { redacted: content.slice(redactedMark.length) };
  // One that has a mark keeps it.
  if (ownSignature('anthropic', content) === undefined) return { signature: content };
  return id ? { signature: joinSignature(id, content) } : {};
}

/** OpenAI recognises a thought of its own only by the id of its item, so that is kept with it. */
export function joinSignature(id: string, encrypted: string): string {
  return markSignature('responses', `${id}:${encrypted}`);
}

interface SplitSignature {
  readonly id: string;
  readonly encrypted: string;
}

/** Undefined when the signature is not OpenAI's. */
export function splitSignature(signature: string | undefined): SplitSignature | undefined {
  const own = ownSignature('responses', signature) ?? '';
  const [, id, encrypted] = /^([^:]+):(.+)$/s.exec(own) ?? [];
  return id && encrypted ? { id, encrypted } : undefined;
}

const foreignMarks = [anthropicMark, redactedMark, geminiMark];

/** The item as OpenAI made it; undefined when it is not OpenAI's, or was stored at OpenAI only. */
export function ownReasoning(item: ReasoningItem): ReasoningItem | undefined {
  const content = item.encrypted_content;
  if (!content || foreignMarks.some((mark) => content.startsWith(mark))) return undefined;
  const split = splitSignature(content);
  return split ? { ...item, id: split.id, encrypted_content: split.encrypted } : item;
}
