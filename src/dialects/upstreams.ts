import type { DialectName } from '../config/provider-schema.ts';
import { anthropicUpstream } from './anthropic/upstream.ts';
import { bedrockUpstream } from './bedrock/upstream.ts';
import type { UpstreamDialect } from './dialect.ts';
import { geminiUpstream } from './gemini/upstream.ts';
import { openAiUpstream } from './openai/upstream.ts';
import { responsesUpstream } from './responses/upstream.ts';

/** The upstream dialects that can chat. */
const dialects: Partial<Record<DialectName, UpstreamDialect>> = {
  openai: openAiUpstream,
  siliconflow: openAiUpstream,
  anthropic: anthropicUpstream,
  gemini: geminiUpstream,
  bedrock: bedrockUpstream,
  'openai-responses': responsesUpstream,
};

export function upstreamDialect(name: DialectName): UpstreamDialect | undefined {
  return dialects[name];
}

export function isDialect(name: string): name is DialectName {
  return Object.hasOwn(dialects, name);
}

/** Dialects without words for an address: what a client names by one goes to them as bytes. */
const bytesOnly: ReadonlySet<DialectName> = new Set(['bedrock']);

export function takesBytesOnly(name: DialectName): boolean {
  return bytesOnly.has(name);
}
