import type { UpstreamDialect } from '../dialect.ts';
import { GeminiStreamReader, tellReply } from './reader.ts';
import { writeRequest } from './write.ts';

/** Google's Gemini, `generateContent`. */
export const geminiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  write: writeRequest,
  readStream: (listener) => new GeminiStreamReader(listener),
  readReply: tellReply,
};
