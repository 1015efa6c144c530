import { generationOf } from '../../anthropic/upstream/parameters.ts';
import type { UpstreamDialect } from '../../dialect.ts';
import { commonParameters } from '../../normalize/requests/vendor-parameters.ts';
import { BedrockStreamReader, emitReply } from './read.ts';
import { writeRequest } from './write.ts';

/** Amazon Bedrock's Converse, the same for the models of all vendors there. */
export const bedrockUpstream: UpstreamDialect = {
  parameters: [...commonParameters, 'top_k', 'stop'],
  toolNameLengthMax: 64,
  requiresInlineContent: true,
  defaultThinking: (upstreamModel) => generationOf(upstreamModel)?.thinking ?? null,
  write: writeRequest,
  readStream: (sink) => new BedrockStreamReader(sink),
  readReply: emitReply,
};
