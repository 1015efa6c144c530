import type { UpstreamDialect } from '../dialect.ts';
import { generationOf } from './generation.ts';
import { AnthropicStreamReader, tellReply } from './reader.ts';
import { writeMessages } from './write.ts';

/** Anthropic-style upstreams, for clients that speak differently. */
export const anthropicUpstream: UpstreamDialect = {
  toolNameLengthMax: 128,
  usualThinking: (upstreamModel) => generationOf(upstreamModel)?.thinking ?? null,
  write: writeMessages,
  readStream: (listener) => new AnthropicStreamReader(listener),
  readReply: tellReply,
};
