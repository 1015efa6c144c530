/**
 * The signature of a thought as a Responses client keeps it: in `encrypted_content`, whichever
 * provider signed it. OpenAI's have no mark there, since clients that used OpenAI directly send
 * them without; so all others need a mark, even Anthropic's.
 */
import type { ReasoningPart } from '../../core/prompt.ts';
import { markSignature, ownSignature } from '../normalize/signature.ts';
import type { ItemOf } from './client/input-items.ts';

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
  // A signature with a provider's mark stays as it is.
  if (ownSignature('anthropic', content) === undefined) return { signature: content };
  return id ? { signature: joinSignature(id, content) } : {};
}

/** OpenAI knows a thought of its own only together with the item's id, so both are joined. */
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

/** The item as OpenAI made it; undefined if it is not OpenAI's, or only OpenAI has its content. */
export function ownReasoning(item: ReasoningItem): ReasoningItem | undefined {
  const content = item.encrypted_content;
  if (!content || foreignMarks.some((mark) => content.startsWith(mark))) return undefined;
  const split = splitSignature(content);
  return split ? { ...item, id: split.id, encrypted_content: split.encrypted } : item;
}
