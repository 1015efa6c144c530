import type { UpstreamDialect } from '../dialect.ts';
import { ResponsesStreamReader, tellReply } from './reader.ts';
import { writeRequest } from './write.ts';

/** OpenAI's Responses endpoint, for models that take tools only there while they reason. */
export const responsesUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  usualThinking: () => 'effort',
  write: writeRequest,
  readStream: (listener) => new ResponsesStreamReader(listener),
  readReply: tellReply,
};
