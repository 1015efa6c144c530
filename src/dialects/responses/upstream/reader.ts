import type { AnswerSink } from '../../../core/answer.ts';
import type { JsonObject } from '../../../core/json.ts';
import type { SseMessage, StreamReader, UpstreamDialect, UpstreamFailure } from '../../dialect.ts';
import { commonParameters } from '../../normalize/requests/vendor-parameters.ts';
import {
  finishReasonOf,
  parseEvent,
  parseReply,
  statusFailure,
  statusIn,
  tooManyItems,
} from '../answer-parser.ts';
import { readUsage } from '../usage.ts';
import { ItemEmitter } from './output-items.ts';
import { writeRequest } from './request.ts';

/**
 * Translates for OpenAI's Responses endpoint. Some models can use tools while reasoning only there.
 */
export const responsesUpstream: UpstreamDialect = {
  parameters: [
    ...commonParameters,
    ...['user', 'safety_identifier', 'parallel_tool_calls', 'verbosity', 'prompt_cache_key'],
  ],
  toolNameLengthMax: 64,
  requiresInlineContent: false,
  defaultThinking: () => 'effort',
  write: writeRequest,
  readStream: (sink, _toolNames, provider) => new ResponsesStreamReader(sink, provider),
  readReply: readFullReply,
};

export class ResponsesStreamReader implements StreamReader {
  finished = false;
  readonly #sink: AnswerSink;
  readonly #emitter: ItemEmitter;

  constructor(sink: AnswerSink, provider?: string) {
    this.#sink = sink;
    this.#emitter = new ItemEmitter(sink, provider);
  }

  get ended(): boolean {
    return this.finished;
  }

  push(message: SseMessage): UpstreamFailure | undefined {
    if (this.finished) return undefined;
    const parsed = parseEvent(message);
    switch (parsed.kind) {
      case 'item':
        this.#emitter.take(parsed.type, parsed.fields);
        return this.#emitter.isFull ? tooManyItems() : undefined;
      case 'end':
        return this.#readEnd(parsed.response, statusIn(parsed.type));
      case 'failed':
        return parsed.failure;
      case 'opening':
      case 'ignored':
        return undefined;
    }
  }

  #readEnd(response: JsonObject, claimedStatus: string): UpstreamFailure | undefined {
    const { status = claimedStatus } = response;
    return statusFailure(response, status) ?? this.readResponse(response, status);
  }

  /**
   * Emits the content of a complete response that hasn't been emitted yet, then the usage and the
   * finish reason.
   */
  readResponse(response: JsonObject, status: unknown): UpstreamFailure | undefined {
    this.#emitter.emitOutput(response.output);
    if (this.#emitter.isFull) return tooManyItems();
    this.#emitter.end();
    const usage = readUsage(response.usage, response.output);
    if (usage !== undefined) this.#sink.usage?.(usage);
    this.finished = true;
    const reason = finishReasonOf(status, response.incomplete_details, this.#emitter.hasCalls);
    this.#sink.finish(reason, null);
    return undefined;
  }
}

/** Emits a non-streaming response. Returns a failure if the response is one. */
export function readFullReply(
  text: string,
  sink: AnswerSink,
  provider?: string,
): UpstreamFailure | undefined {
  const parsed = parseReply(text);
  if (!parsed.ok) return parsed.failure;
  const response = parsed.value;
  return new ResponsesStreamReader(sink, provider).readResponse(response, response.status);
}
