import type { UpstreamDialect } from '../dialect.ts';
import { GeminiStreamReader, tellReply } from './reader.ts';
import { usualThinking } from './thinking.ts';
import { writeRequest } from './write.ts';

/** Google's Gemini, `generateContent`. */
export const geminiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  usualThinking,
  write: writeRequest,
  readStream: (listener) => new GeminiStreamReader(listener),
  readReply: tellReply,
};
