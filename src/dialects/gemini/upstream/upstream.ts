import type { UpstreamDialect } from '../../dialect.ts';
import { commonParameters } from '../../normalize/requests/vendor-parameters.ts';
import { defaultThinking } from './model.ts';
import { GeminiStreamReader, readFullReply } from './reader.ts';
import { writeRequest } from './request.ts';

/** Google's Gemini, `generateContent`. */
export const geminiUpstream: UpstreamDialect = {
  parameters: [
    ...commonParameters,
    ...['n', 'top_k', 'stop', 'frequency_penalty', 'presence_penalty', 'seed'],
  ],
  toolNameLengthMax: 64,
  requiresInlineContent: false,
  defaultThinking,
  write: writeRequest,
  readStream: (sink) => new GeminiStreamReader(sink),
  readReply: readFullReply,
};
