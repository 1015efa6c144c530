import type { ClientRequest, ReplyIdentity, StreamFormat, Target } from '../dialect.ts';
import { AbstractClientRequest } from '../engine.ts';
import { readPrompt } from './client/prompt.ts';
import type { ResponsesRequest } from './client/request.ts';
import { type Echo, echoOf } from './client/response-object.ts';
import { responsesClient, responsesStreamFormat } from './client/response-writers.ts';
import type { ResponsesBody } from './client/schema.ts';
import { toolLists } from './client/tools.ts';
import { readReply } from './passthrough/reply.ts';
import { passResponsesRequest } from './passthrough/request.ts';
import { ResponsesPassThrough } from './passthrough/stream.ts';
import { responsesUpstream } from './upstream/reader.ts';

/** Returns a Responses client's request with its adapters to upstreams. */
export function responsesClientRequest(request: ResponsesRequest): ClientRequest {
  return new ResponsesClientRequest(request, echoOf(request.body));
}

class ResponsesClientRequest extends AbstractClientRequest<ResponsesRequest> {
  protected override readonly ownUpstream = responsesUpstream;
  override readonly streamFormat: StreamFormat;
  readonly #echo: Echo;

  constructor(request: ResponsesRequest, echo: Echo) {
    super(request);
    this.streamFormat = responsesStreamFormat(echo);
    this.#echo = echo;
  }

  override get client() {
    return responsesClient(this.parsed.body, this.#echo);
  }

  override get isStreamModeFixed() {
    const lists = toolLists(this.parsed.body);
    return lists.some(({ tools }) => tools.some(({ type }) => type !== 'function'));
  }

  protected override readPrompt() {
    return readPrompt(this.parsed);
  }

  /** Keeps the echo: a response repeats the client's instructions, not the gateway's. */
  override withInstructions(text: string): ClientRequest {
    const request = this.appendInstructions(text, withInstructions);
    return new ResponsesClientRequest(request, this.#echo);
  }

  override cacheKeyInput() {
    const { stream: _, stream_options: __, ...rest } = this.parsed.body;
    return this.cacheKeyInputFor('responses', rest);
  }

  override write(target: Target) {
    return passResponsesRequest(this.parsed, target);
  }

  override transformStream(identity: ReplyIdentity) {
    return new ResponsesPassThrough(identity, this.#echo);
  }

  override transformReply(text: string, identity: ReplyIdentity) {
    return readReply(text, identity, this.#echo);
  }
}

/**
 * Appends `text` to the client's `instructions`, or inserts it after the instructions in the input.
 */
function withInstructions(body: ResponsesBody, text: string): ResponsesBody {
  const { input, instructions } = body;
  const isInstruction = (item: object) =>
    'role' in item && (item.role === 'developer' || item.role === 'system');
  const first = typeof input === 'string' ? 0 : input.findIndex((item) => !isInstruction(item));
  if (typeof input === 'string' || first === 0) {
    return { ...body, instructions: instructions ? `${instructions}\n\n${text}` : text };
  }
  const at = first === -1 ? input.length : first;
  const added = { type: 'message', role: 'developer', content: text };
  return { ...body, input: input.toSpliced(at, 0, added) };
}
