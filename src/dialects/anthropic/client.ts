import type { ClientDialect } from '../dialect.ts';
import { AnthropicReplyWriter } from './client-reply.ts';
import { AnthropicStreamWriter } from './client-stream.ts';

interface AnthropicClientOptions {
  /** A stream begins with the size of its prompt, which only its end really knows. Asked then. */
  readonly inputTokensEstimate: number;
}

/** What an Anthropic client hears of an answer that was told in our words. */
export function anthropicClient(options: AnthropicClientOptions): ClientDialect {
  return {
    writeStream: (identity) => new AnthropicStreamWriter(identity, options.inputTokensEstimate),
    writeReply: (identity) => new AnthropicReplyWriter(identity),
  };
}
