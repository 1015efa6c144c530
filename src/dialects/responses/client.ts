import type { ClientDialect } from '../dialect.ts';
import { ResponsesReplyWriter } from './client-reply.ts';
import { ResponsesStreamWriter } from './client-stream.ts';
import type { ResponsesBody } from './request-schema.ts';
import type { Echo } from './response-object.ts';
import { ToolForms } from './tool-forms.ts';

/** What a Responses client hears of an answer that was told in our words. */
export function responsesClient(body: Pick<ResponsesBody, 'tools'>, echo: Echo): ClientDialect {
  // Where the answer passes through, nobody asks for them.
  let forms: ToolForms | undefined;
  const formsOnce = () => {
    forms ??= new ToolForms(body);
    return forms;
  };
  return {
    openStream: (identity) => new ResponsesStreamWriter(identity, formsOnce(), echo),
    openReply: (identity) => new ResponsesReplyWriter(identity, formsOnce(), echo),
  };
}
