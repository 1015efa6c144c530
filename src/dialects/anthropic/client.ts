import type { ClientDialect } from '../dialect.ts';
import { AnthropicReplyWriter } from './client-reply.ts';
import { AnthropicStreamWriter } from './client-stream.ts';

interface AnthropicClientOptions {
  /** A stream begins with the size of its prompt, a guess until its end. Read only for streams. */
  readonly inputTokensEstimate: number;
}

/** How an answer told in our words is written for an Anthropic client. */
export function anthropicClient(options: AnthropicClientOptions): ClientDialect {
  return {
    writeStream: (identity) => new AnthropicStreamWriter(identity, options.inputTokensEstimate),
    writeReply: (identity) => new AnthropicReplyWriter(identity),
  };
}
