import type { UpstreamDialect } from '../../dialect.ts';
import { defaultThinking } from './model.ts';
import { emitReply, GeminiStreamReader } from './read.ts';
import { writeRequest } from './write.ts';

/** Google's Gemini, `generateContent`. */
export const geminiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  defaultThinking,
  write: writeRequest,
  readStream: (sink) => new GeminiStreamReader(sink),
  readReply: emitReply,
};
