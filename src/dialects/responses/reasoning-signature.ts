/**
 * Stores the signature of a thought in `encrypted_content`, whichever provider signed it. OpenAI's
 * signatures have no mark, because clients that used OpenAI directly send them without one. All
 * others need a mark, even Anthropic's.
 */
import type { ReasoningPart } from '../../core/prompt.ts';
import { ownSignature, prefixSignature } from '../normalize/signature.ts';
import type { ItemOf } from './client/input-items.ts';

const anthropicMark = 'anthropic:';
const redactedMark = 'redacted:';
const geminiMark = prefixSignature('gemini', '');

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
  // A signature with a provider's mark stays unchanged.
  if (ownSignature('anthropic', content) === undefined) return { signature: content };
  return id ? { signature: joinSignature(id, content) } : {};
}

/** Joins the ID and the content, because OpenAI accepts its thoughts only with their ids. */
export function joinSignature(id: string, encrypted: string): string {
  return prefixSignature('responses', `${id}:${encrypted}`);
}

interface SplitSignature {
  readonly id: string;
  readonly encrypted: string;
}

/** Returns undefined if the signature isn't OpenAI's. */
export function splitSignature(signature: string | undefined): SplitSignature | undefined {
  const own = ownSignature('responses', signature) ?? '';
  const [, id, encrypted] = /^([^:]+):(.+)$/s.exec(own) ?? [];
  return id && encrypted ? { id, encrypted } : undefined;
}

const foreignMarks = [anthropicMark, redactedMark, geminiMark];

/** Returns OpenAI's original item; undefined if it isn't OpenAI's or has no encrypted content. */
export function ownReasoning(item: ReasoningItem): ReasoningItem | undefined {
  const content = item.encrypted_content;
  if (!content || foreignMarks.some((mark) => content.startsWith(mark))) return undefined;
  const split = splitSignature(content);
  return split ? { ...item, id: split.id, encrypted_content: split.encrypted } : item;
}
