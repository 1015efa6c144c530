import type { UpstreamDialect } from '../dialect.ts';
import { AnthropicStreamReader, tellReply } from './reader.ts';
import { usualThinking } from './thinking.ts';
import { writeMessages } from './write.ts';

/** Anthropic-style upstreams, for clients that speak differently. */
export const anthropicUpstream: UpstreamDialect = {
  toolNameLengthMax: 128,
  usualThinking,
  write: writeMessages,
  readStream: (listener) => new AnthropicStreamReader(listener),
  readReply: tellReply,
};
