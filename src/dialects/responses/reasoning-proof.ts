/**
 * Where a Responses client keeps the proof of a thought: in `encrypted_content`, whoever made it.
 * OpenAI's own go unmarked there, since OpenAI's clients send them unchanged; so all others need a
 * mark, Anthropic's too.
 */
import type { ReasoningPart } from '../../core/dialogue.ts';
import { markSignature, ownSignature } from '../../core/signature.ts';
import type { ItemOf } from './input-items.ts';

const anthropicMark = 'anthropic:';
const redactedMark = 'redacted:';
const foreignMarks = [anthropicMark, redactedMark, markSignature('gemini', '')];

export function writeProof(signature: string): string {
  const own = ownSignature('anthropic', signature);
  return own === undefined ? signature : anthropicMark + own;
}

export function writeRedacted(data: string): string {
  return redactedMark + data;
}

type ReasoningItem = ItemOf<'reasoning'>;

export function readProof({
  id,
  encrypted_content: proof,
}: ReasoningItem): Pick<ReasoningPart, 'signature' | 'redacted'> {
  if (!proof) return {};
  if (proof.startsWith(anthropicMark)) return { signature: proof.slice(anthropicMark.length) };
  if (proof.startsWith(redactedMark)) return { redacted: proof.slice(redactedMark.length) };
  if (proof.startsWith(markSignature('gemini', ''))) return { signature: proof };
  if (ownSignature('responses', proof) !== undefined) return { signature: proof };
  // Without the id of its item OpenAI would not know its own thought again.
  return id ? { signature: markSignature('responses', `${id}:${proof}`) } : {};
}

/** The item as OpenAI made it; undefined when it is not OpenAI's, or was kept there only. */
export function ownReasoning(item: ReasoningItem): ReasoningItem | undefined {
  const proof = item.encrypted_content;
  if (!proof || foreignMarks.some((mark) => proof.startsWith(mark))) return undefined;
  const [, id, encrypted] = /^([^:]+):(.+)$/s.exec(ownSignature('responses', proof) ?? '') ?? [];
  return id && encrypted ? { ...item, id, encrypted_content: encrypted } : item;
}
