import { generationOf } from '../anthropic/generation.ts';
import type { UpstreamDialect } from '../dialect.ts';
import { BedrockStreamReader, tellReply } from './reader.ts';
import { writeRequest } from './write.ts';

/** Amazon Bedrock's Converse, the same for the models of all vendors there. */
export const bedrockUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  takesBytesOnly: true,
  usualThinking: (upstreamModel) => generationOf(upstreamModel)?.thinking ?? null,
  write: writeRequest,
  readStream: (listener) => new BedrockStreamReader(listener),
  readReply: tellReply,
};
