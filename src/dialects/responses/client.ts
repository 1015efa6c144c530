import type { ClientDialect } from '../dialect.ts';
import { ResponsesReplyWriter } from './client-reply.ts';
import { ResponsesStreamWriter } from './client-stream.ts';
import type { Echo } from './response-object.ts';
import { ToolForms } from './tool-forms.ts';
import type { WithTools } from './tool-schema.ts';

/** How an answer told in our words is written for a Responses client. */
export function responsesClient(body: WithTools, echo: Echo): ClientDialect {
  return {
    writeStream: (identity) => new ResponsesStreamWriter(identity, new ToolForms(body), echo),
    writeReply: (identity) => new ResponsesReplyWriter(identity, new ToolForms(body), echo),
  };
}
