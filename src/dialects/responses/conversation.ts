import { instructed } from '../ask/instruct.ts';
import { wordingOf } from '../ask/wording.ts';
import type { Conversation, Crossing } from '../dialect.ts';
import { translate } from '../translation.ts';
import { waysFrom } from '../ways.ts';
import { responsesClient } from './client.ts';
import { responsesWords } from './client-stream.ts';
import { readDialogue } from './dialogue.ts';
import { ResponsesPassThrough } from './pass-through.ts';
import { passReply } from './pass-through-reply.ts';
import { passResponse } from './pass-through-request.ts';
import type { ResponsesRequest } from './request.ts';
import type { ResponsesBody } from './request-schema.ts';
import { type Echo, echoOf } from './response-object.ts';
import { type ToolList, toolLists } from './tool-forms.ts';
import { responsesUpstream } from './upstream.ts';

/** A Responses client's request, and the ways it can be put to an upstream. */
export function responsesConversation(
  request: ResponsesRequest,
  echo: Echo = echoOf(request.body),
): Conversation {
  const { ask, body } = request;
  const words = responsesWords(echo);
  const client = responsesClient(body, echo);
  const read = () => readDialogue(request);
  const same: Crossing = {
    write: (target) => passResponse(request, target),
    openStream: (identity) => new ResponsesPassThrough(identity, words, echo),
    readReply: (text, identity) => passReply(text, identity, echo),
    streamReply(text, identity) {
      if (isFormBound(request)) return undefined;
      return translate(read(), client, responsesUpstream).streamReply(text, identity);
    },
  };
  return {
    ask,
    words,
    ...waysFrom(client, responsesUpstream, same, read),
    // What we added is no part of what the client asked.
    instruct: (text) => responsesConversation(instructed(request, text, withInstructions), echo),
    client,
    wording: () => wording(request),
    temperature: body.temperature ?? null,
  };
}

/** Whether an answer in one form cannot be told in the other without a loss. */
function isFormBound({ body }: ResponsesRequest): boolean {
  const isPlain = ({ tools }: ToolList) => tools.every(({ type }) => type === 'function');
  return !toolLists(body).every(isPlain);
}

/** How the answer is delivered decides nothing about it, but for what only one form can carry. */
function wording(request: ResponsesRequest): unknown {
  const { body, source } = request;
  const { stream, stream_options: _, ...rest } = body;
  const form = isFormBound(request) ? stream === true : null;
  return wordingOf('responses', rest, form, source);
}

/** Behind the instructions at the beginning, in front of what is said. */
function withInstructions(body: ResponsesBody, text: string): ResponsesBody {
  const { input, instructions } = body;
  const isInstruction = (item: object) =>
    'role' in item && (item.role === 'developer' || item.role === 'system');
  const first = typeof input === 'string' ? 0 : input.findIndex((item) => !isInstruction(item));
  if (typeof input === 'string' || first === 0) {
    return { ...body, instructions: instructions ? `${instructions}\n\n${text}` : text };
  }
  const at = first === -1 ? input.length : first;
  const more = { type: 'message', role: 'developer', content: text };
  return { ...body, input: input.toSpliced(at, 0, more) };
}
