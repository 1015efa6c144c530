/**
 * Stores the signature of any provider's reasoning in `encrypted_content`. OpenAI's signatures have
 * no prefix, because clients that used OpenAI directly before send them without one. All other
 * signatures need a prefix, even Anthropic's.
 */
import type { ReasoningPart } from '../../core/prompt.ts';
import { ownSignature, prefixSignature } from '../normalize/signature.ts';
import type { ItemOf } from './client/input-items.ts';

const anthropicPrefix = 'anthropic:';
const redactedPrefix = 'redacted:';
const geminiPrefix = prefixSignature('gemini', '');

export function writeSignature(signature: string): string {
  const original = ownSignature('anthropic', signature);
  return original === undefined ? signature : anthropicPrefix + original;
}

export function writeRedacted(data: string): string {
  return redactedPrefix + data;
}

type ReasoningItem = ItemOf<'reasoning'>;

export function readSignature({
  id,
  encrypted_content: content,
}: ReasoningItem): Pick<ReasoningPart, 'signature' | 'redacted'> {
  if (!content) return {};
  if (content.startsWith(anthropicPrefix))
    return { signature: content.slice(anthropicPrefix.length) };
  if (content.startsWith(redactedPrefix)) return { redacted: content.slice(redactedPrefix.length) };
  // A signature that starts with another provider's prefix is returned unchanged.
  if (ownSignature('anthropic', content) === undefined) return { signature: content };
  return id ? { signature: joinSignature(id, content) } : {};
}

/** Joins an item's ID and content, because OpenAI accepts reasoning only with its ID. */
export function joinSignature(id: string, encrypted: string): string {
  return prefixSignature('responses', `${id}:${encrypted}`);
}

interface SplitSignature {
  readonly id: string;
  readonly encrypted: string;
}

/** Returns undefined if the signature isn't OpenAI's. */
export function splitSignature(signature: string | undefined): SplitSignature | undefined {
  const original = ownSignature('responses', signature) ?? '';
  const [, id, encrypted] = /^([^:]+):(.+)$/s.exec(original) ?? [];
  return id && encrypted ? { id, encrypted } : undefined;
}

const otherDialectPrefixes = [anthropicPrefix, redactedPrefix, geminiPrefix];

/** Returns OpenAI's original item, or undefined if the item isn't OpenAI's or isn't encrypted. */
export function ownReasoning(item: ReasoningItem): ReasoningItem | undefined {
  const content = item.encrypted_content;
  if (!content || otherDialectPrefixes.some((prefix) => content.startsWith(prefix)))
    return undefined;
  const split = splitSignature(content);
  return split ? { ...item, id: split.id, encrypted_content: split.encrypted } : item;
}
