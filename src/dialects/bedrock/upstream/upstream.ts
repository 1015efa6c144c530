import { generationOf } from '../../anthropic/upstream/parameters.ts';
import type { UpstreamDialect } from '../../dialect.ts';
import { commonParameters } from '../../normalize/requests/vendor-parameters.ts';
import { BedrockStreamReader, readFullReply } from './reader.ts';
import { writeRequest } from './request.ts';

/** Amazon Bedrock's Converse API, which is the same for all vendors' models. */
export const bedrockUpstream: UpstreamDialect = {
  parameters: [...commonParameters, 'top_k', 'stop'],
  toolNameLengthMax: 64,
  requiresInlineContent: true,
  defaultThinking: (upstreamModel) => generationOf(upstreamModel)?.thinking ?? null,
  write: writeRequest,
  readStream: (sink) => new BedrockStreamReader(sink),
  readReply: readFullReply,
};
