import { isNonEmptyString } from '../../core/json.ts';

/**
 * Providers sign their reasoning and reject signatures from other providers, but a conversation may
 * move from one provider to another. So the signature that a client gets starts with a prefix that
 * names its origin. Anthropic's signatures have no prefix, because clients that used Anthropic
 * directly before send its signatures without one. An origin isn't a dialect: Bedrock returns
 * Anthropic's signatures.
 */
const originPrefixes = { anthropic: '', gemini: 'gemini:', responses: 'responses:' } as const;
export type SignatureOrigin = keyof typeof originPrefixes;

export function prefixSignature(origin: SignatureOrigin, signature: string): string {
  return originPrefixes[origin] + signature;
}

/**
 * Returns the signature without its prefix; undefined if there is no signature or it has another
 * origin.
 */
export function ownSignature(
  origin: SignatureOrigin,
  prefixed: string | undefined,
): string | undefined {
  if (prefixed === undefined || prefixed === '') return undefined;
  const prefixes = Object.values(originPrefixes);
  const found = prefixes.find((prefix) => prefix !== '' && prefixed.startsWith(prefix)) ?? '';
  return found === originPrefixes[origin] ? prefixed.slice(found.length) : undefined;
}

/** The prefix of OpenRouter's `format` for Anthropic's encrypted reasoning. */
const anthropicFormat = /^anthropic-/;
const plainFormat = /^[\w-]{1,40}$/;
const formatPrefix = /^([\w-]{1,40}):(.*)$/s;

/** Prefixes encrypted reasoning with OpenRouter's `format`, unless it is Anthropic's. */
export function prefixEncrypted(format: unknown, data: string): string {
  if (!isNonEmptyString(format) || anthropicFormat.test(format)) return data;
  return `${plainFormat.test(format) ? format : 'unknown'}:${data}`;
}

/** Splits encrypted reasoning into its data and OpenRouter's `format`, if it has one. */
export function splitEncrypted(prefixed: string): {
  readonly data: string;
  readonly format?: string;
} {
  const [, format, data] = formatPrefix.exec(prefixed) ?? [];
  return format === undefined || data === undefined ? { data: prefixed } : { data, format };
}

/** Returns true if Anthropic can read the encrypted reasoning. */
export function isAnthropicRedacted(redacted: string | undefined): redacted is string {
  return redacted !== undefined && splitEncrypted(redacted).format === undefined;
}
