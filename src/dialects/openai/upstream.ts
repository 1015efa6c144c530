import type { UpstreamDialect } from '../dialect.ts';
import { passChat } from './pass-through-request.ts';
import { OpenAiStreamReader, tellReply } from './reader.ts';
import { writeBody } from './write.ts';

/** OpenAI-style upstreams, for clients that speak differently. */
export const openAiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  write(dialogue, target) {
    const { body, dropped } = writeBody(dialogue, target.reasons);
    const request = passChat({ body, source: null }, target);
    return { ...request, dropped: [...dropped, ...(request.dropped ?? [])] };
  },
  readStream: (listener, toolNames) => new OpenAiStreamReader(listener, toolNames),
  readReply: tellReply,
};
