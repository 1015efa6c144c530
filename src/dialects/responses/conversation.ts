import { ClientConversation } from '../conversation.ts';
import type { ClientWords, Conversation, ReplyIdentity, Target } from '../dialect.ts';
import { responsesClient } from './client.ts';
import { responsesWords } from './client-stream.ts';
import { readDialogue } from './dialogue.ts';
import { ResponsesPassThrough } from './pass-through.ts';
import { readReply } from './pass-through-reply.ts';
import { passResponse } from './pass-through-request.ts';
import type { ResponsesRequest } from './request.ts';
import type { ResponsesBody } from './request-schema.ts';
import { type Echo, echoOf } from './response-object.ts';
import { toolLists } from './tool-schema.ts';
import { responsesUpstream } from './upstream.ts';

/** A Responses client's request, and the ways it can be put to an upstream. */
export function responsesConversation(request: ResponsesRequest): Conversation {
  return new ResponsesConversation(request, echoOf(request.body));
}

class ResponsesConversation extends ClientConversation<ResponsesRequest> {
  protected override readonly own = responsesUpstream;
  override readonly words: ClientWords;
  readonly #echo: Echo;

  constructor(request: ResponsesRequest, echo: Echo) {
    super(request);
    this.words = responsesWords(echo);
    this.#echo = echo;
  }

  override get client() {
    return responsesClient(this.request.body, this.#echo);
  }

  override get isFormBound() {
    const lists = toolLists(this.request.body);
    return lists.some(({ tools }) => tools.some(({ type }) => type !== 'function'));
  }

  protected override readDialogue() {
    return readDialogue(this.request);
  }

  /** Keeps the old echo: a response repeats what its client asked, not our own instructions. */
  override instruct(text: string): Conversation {
    const request = this.instructed(text, withInstructions);
    return new ResponsesConversation(request, this.#echo);
  }

  override wording() {
    const { stream: _, stream_options: __, ...rest } = this.request.body;
    return this.wordingOf('responses', rest);
  }

  override write(target: Target) {
    return passResponse(this.request, target);
  }

  override relayStream(identity: ReplyIdentity) {
    return new ResponsesPassThrough(identity, this.#echo);
  }

  override relayReply(text: string, identity: ReplyIdentity) {
    return readReply(text, identity, this.#echo);
  }
}

/** Puts our instructions after the client's: in `instructions`, or after those in the input. */
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
