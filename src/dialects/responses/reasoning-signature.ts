/**
 * Stores the signature of any provider's reasoning in `encrypted_content`. OpenAI's signatures have
 * no prefix, because clients that used OpenAI directly before send them without one. All other
 * signatures need a prefix, even Anthropic's.
 */
import { isNonEmptyString, type JsonObject, objectsIn } from '../../core/json.ts';
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
  // Its provider ignores the ID, and some clients don't return it.
  if (plainPattern.test(content)) return { signature: joinSignature(id || 'rs_plain', content) };
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
function splitSignature(signature: string | undefined): SplitSignature | undefined {
  const original = ownSignature('responses', signature) ?? '';
  const [, id, encrypted] = /^([^:]+):(.+)$/s.exec(original) ?? [];
  return id && encrypted ? { id, encrypted } : undefined;
}

const otherDialectPrefixes = [anthropicPrefix, redactedPrefix, geminiPrefix];

/**
 * Returns the item as its provider wrote it. Returns undefined if the item may be from a provider
 * with another dialect, or if it is plain text from another provider, because OpenAI rejects both.
 */
export function ownReasoning(
  item: ReasoningItem,
  provider: string | undefined,
): ReasoningItem | undefined {
  const content = item.encrypted_content;
  if (!content || otherDialectPrefixes.some((prefix) => content.startsWith(prefix)))
    return undefined;
  const split = splitSignature(content);
  const encrypted = split?.encrypted ?? content;
  const own = split ? { ...item, id: split.id } : item;
  const plain = readPlainMark(encrypted);
  if (plain === undefined) return split ? { ...own, encrypted_content: encrypted } : item;
  return plain.provider === provider ? { ...own, encrypted_content: null } : undefined;
}

// Some providers, such as OpenRouter and vLLM, return reasoning as plain text without
// `encrypted_content`, and need it back in the next request. OpenAI rejects such items. So the
// client gets the provider's name in `encrypted_content`.

const plainPattern = /^plain-(text|summary):(.+)$/s;

/** Where an item has its text: in `content` or in `summary`. */
type PlainKind = 'text' | 'summary';

/** Returns the mark for a reasoning item, or undefined if the item is encrypted or has no text. */
export function plainMark(item: JsonObject, provider: string | undefined): string | undefined {
  if (provider === undefined || isNonEmptyString(item.encrypted_content)) return undefined;
  const hasText = (parts: unknown) => objectsIn(parts).some(({ text }) => isNonEmptyString(text));
  if (hasText(item.content)) return `plain-text:${provider}`;
  return hasText(item.summary) ? `plain-summary:${provider}` : undefined;
}

interface PlainMark {
  readonly kind: PlainKind;
  readonly provider: string;
}

function readPlainMark(encrypted: string): PlainMark | undefined {
  const [, kind, provider] = plainPattern.exec(encrypted) ?? [];
  if (kind === undefined || provider === undefined) return undefined;
  return { kind: kind === 'text' ? 'text' : 'summary', provider };
}

/** Writes neutral reasoning as an item. Returns undefined if this provider would reject it. */
export function writeReasoningItem(
  { text, signature }: ReasoningPart,
  provider: string | undefined,
): object | undefined {
  const split = splitSignature(signature);
  if (!split) return undefined;
  const { id, encrypted } = split;
  const plain = readPlainMark(encrypted);
  const summary = text === '' ? [] : [{ type: 'summary_text', text }];
  if (plain === undefined) return { type: 'reasoning', id, summary, encrypted_content: encrypted };
  if (plain.provider !== provider || text === '') return undefined;
  if (plain.kind === 'summary') return { type: 'reasoning', id, summary };
  return { type: 'reasoning', id, summary: [], content: [{ type: 'reasoning_text', text }] };
}
