import type { DialectName } from '../config/provider-schema.ts';
import { anthropicUpstream } from './anthropic/upstream.ts';
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
  'openai-responses': responsesUpstream,
};

export function upstreamDialect(name: DialectName): UpstreamDialect | undefined {
  return dialects[name];
}

export function isDialect(name: string): name is DialectName {
  return Object.hasOwn(dialects, name);
}
