import type { ClientDialect } from '../dialect.ts';
import { OpenAiReplyWriter } from './client-reply.ts';
import { OpenAiStreamWriter } from './client-stream.ts';

/** What an OpenAI client hears of an answer that was told in our words. */
export function openAiClient(options: { readonly includeUsage: boolean }): ClientDialect {
  return {
    openStream: (identity) => new OpenAiStreamWriter(identity, options.includeUsage),
    openReply: (identity) => new OpenAiReplyWriter(identity),
  };
}
