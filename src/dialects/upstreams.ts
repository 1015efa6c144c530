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

/** Whether `name` is a dialect that can chat. */
export function canChat(name: string): name is DialectName {
  return Object.hasOwn(dialects, name);
}
