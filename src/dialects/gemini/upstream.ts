import type { UpstreamDialect } from '../dialect.ts';
import { GeminiReader } from './reader.ts';
import { readReply } from './reply.ts';
import { writeRequest } from './write.ts';

/** Google's Gemini, `generateContent`. */
export const geminiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  write: writeRequest,
  openStream: (listener) => new GeminiReader(listener),
  readReply,
};
