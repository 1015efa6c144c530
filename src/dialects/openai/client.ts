import type { ClientDialect } from '../dialect.ts';
import { OpenAiReplyWriter } from './client-reply.ts';
import { OpenAiStreamWriter } from './client-stream.ts';

/** What an OpenAI client wants to hear of an answer. */
export interface OpenAiClientOptions {
  readonly includeUsage: boolean;
  /** Reasoning is paid for but not shown. */
  readonly hidesReasoning?: boolean;
  /** How many answers it asked for at once. */
  readonly choices?: number;
  /** It asked with `functions`, as was done before there were tools, and waits for one call. */
  readonly knowsFunctions?: boolean;
  /** Names of its free-form tools: their calls are told with a text instead of JSON. */
  readonly customTools?: ReadonlySet<string> | undefined;
  /** What all of its tools are called. */
  readonly toolNames?: readonly string[] | undefined;
}

/** The same for a whole reply, which has its usage in any case. */
export type ReplyOptions = Omit<OpenAiClientOptions, 'includeUsage'>;

/** What an OpenAI client hears of an answer that was told in our words. */
export function openAiClient(options: OpenAiClientOptions): ClientDialect {
  return {
    writeStream: (identity) => new OpenAiStreamWriter(identity, options),
    writeReply: (identity) => new OpenAiReplyWriter(identity, options),
  };
}
