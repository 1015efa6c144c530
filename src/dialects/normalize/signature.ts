import { isText } from '../../core/json.ts';

/**
 * Providers sign their thoughts and refuse those that another provider signed, and a conversation
 * may move between providers. So a signature goes through the client with a mark of its maker.
 * Anthropic's go unmarked: Anthropic's own clients send them unchanged.
 */
const marks = { anthropic: '', gemini: 'gemini:', responses: 'responses:' } as const;
export type SignatureOrigin = keyof typeof marks;

export function markSignature(origin: SignatureOrigin, signature: string): string {
  return marks[origin] + signature;
}

/** The signature as its maker wrote it; undefined when there is none or it is somebody else's. */
export function ownSignature(
  origin: SignatureOrigin,
  marked: string | undefined,
): string | undefined {
  if (marked === undefined || marked === '') return undefined;
  const found = Object.values(marks).find((mark) => mark !== '' && marked.startsWith(mark)) ?? '';
  return found === marks[origin] ? marked.slice(found.length) : undefined;
}

/** The `format` in which OpenRouter names the maker of an encrypted thought. */
const anthropicFormat = /^anthropic-/;
const plainFormat = /^[\w-]{1,40}$/;
const formatPrefix = /^([\w-]{1,40}):(.*)$/s;

/** Marks an encrypted thought with its format where OpenRouter says that it is not Anthropic's. */
export function markEncrypted(format: unknown, data: string): string {
  if (!isText(format) || anthropicFormat.test(format)) return data;
  return `${plainFormat.test(format) ? format : 'unknown'}:${data}`;
}

/** An encrypted thought as its maker wrote it, and OpenRouter's `format`; none for Anthropic's. */
export function splitEncrypted(marked: string): {
  readonly data: string;
  readonly format?: string;
} {
  const [, format, data] = formatPrefix.exec(marked) ?? [];
  return format === undefined || data === undefined ? { data: marked } : { data, format };
}

/** Whether Anthropic can read an encrypted thought. */
export function isAnthropicRedacted(redacted: string | undefined): redacted is string {
  return redacted !== undefined && splitEncrypted(redacted).format === undefined;
}
