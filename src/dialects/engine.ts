import type { DialectName } from '../config/provider-schema.ts';
import type { AnswerSink } from '../core/answer.ts';
import type { GatewayError } from '../core/errors.ts';
import type { Prompt, UnsupportedPart } from '../core/prompt.ts';
import type { Recording } from '../core/recording.ts';
import type { ChatRequestInfo } from '../core/request-info.ts';
import type {
  Adapter,
  AnswerMetrics,
  ClientDialect,
  ClientRequest,
  RawBody,
  ReadResult,
  ReplyIdentity,
  ReplyWriter,
  SettledUsage,
  SseMessage,
  StreamedReply,
  StreamFormat,
  StreamReader,
  StreamTransform,
  StreamWriter,
  Target,
  TransformedReply,
  UpstreamDialect,
  UpstreamFailure,
  UpstreamRequest,
} from './dialect.ts';
import { EventStreamReader } from './event-stream.ts';
import { MalformedAnswer } from './failure.ts';
import { longNumbersIn } from './normalize/exact-json.ts';
import { withExactNumbers } from './normalize/requests/exact-numbers.ts';
import { withFetchedImages } from './normalize/requests/inline-data.ts';
import { ToolNames } from './normalize/requests/tool-identifiers.ts';
import { withCurrentSchemas } from './normalize/requests/tool-schema.ts';
import { isForced, rejectTooManyArguments } from './normalize/requests/tools.ts';
import { MeteringSink } from './normalize/responses/answer-metrics.ts';
import { dialects } from './registry.ts';

// Translates between two dialects: an upstream's reader emits events to a client's writer.

class TranslatedStream implements StreamTransform {
  readonly #writer: StreamWriter;
  readonly #sink: MeteringSink;
  readonly #reader: StreamReader;
  /** True after a failure or the end of the answer. Later messages are ignored. */
  #isOver = false;

  constructor(writer: StreamWriter, sink: MeteringSink, reader: StreamReader) {
    this.#writer = writer;
    this.#sink = sink;
    this.#reader = reader;
  }

  get metrics(): AnswerMetrics {
    return this.#sink.metrics;
  }

  get started(): boolean {
    return this.#sink.started;
  }

  get finished(): boolean {
    return this.#reader.finished;
  }

  get ended(): boolean {
    return this.#reader.ended;
  }

  push(message: SseMessage): string {
    if (this.#isOver) return '';
    const failure = this.#reader.push(message);
    if (failure !== undefined) {
      this.#isOver = true;
      this.#sink.metrics.failure = failure;
    }
    return this.#writer.take();
  }

  close(settled: SettledUsage): string {
    this.#isOver = true;
    return this.#writer.close(settled);
  }

  fail(error: GatewayError): string {
    this.#isOver = true;
    return this.#writer.fail(error);
  }

  keepAlive(): string {
    return this.#writer.keepAlive();
  }
}

/** Replaces a stream's reader if the upstream sent a non-streaming response. */
const endedReader: StreamReader = { push: () => undefined, finished: true, ended: true };

/** Translates a prompt to an upstream dialect and the answer to a client dialect. */
export class Translation implements Adapter {
  readonly #prompt: Prompt;
  readonly #client: ClientDialect;
  readonly #upstream: UpstreamDialect;
  readonly #toolNames: ToolNames;

  constructor(prompt: Prompt, client: ClientDialect, upstream: UpstreamDialect) {
    this.#prompt = prompt;
    this.#client = client;
    this.#upstream = upstream;
    this.#toolNames = new ToolNames(prompt, upstream.toolNameLengthMax);
  }

  write(target: Target): UpstreamRequest {
    const prompt = this.#prompt;
    rejectTooManyArguments(prompt);
    // A missing tool can't be forced, so drop the choice and report it to the client.
    const isToolChoiceInvalid = isForced(prompt.toolChoice) && isToolMissing(prompt);
    const satisfiable = isToolChoiceInvalid ? { ...prompt, toolChoice: null } : prompt;
    const withImages = withFetchedImages(satisfiable, target.images);
    const normalized = withCurrentSchemas(this.#toolNames.shortenIn(withImages));
    const request = this.#upstream.write(normalized, target);
    const dropped = [...(request.dropped ?? []), ...(isToolChoiceInvalid ? ['tool_choice'] : [])];
    // List known names first: the header has room for only some names, and a client may send any
    // number of unknown ones.
    return { ...request, dropped: [...new Set([...dropped, ...prompt.unsupported])] };
  }

  transformStream(identity: ReplyIdentity): StreamTransform {
    const { writer, sink } = this.#meter(this.#client.writeStream(identity));
    return new TranslatedStream(writer, sink, this.#readStream(sink, identity));
  }

  transformReply(text: string, identity: ReplyIdentity): ReadResult<TransformedReply> {
    const { writer, sink } = this.#meter(this.#client.writeReply(identity));
    const failure = this.#upstream.readReply(text, sink, identity.provider);
    return toResult(failure, toReply(writer, sink));
  }

  streamReply(text: string, identity: ReplyIdentity): ReadResult<StreamedReply> {
    const { writer, sink } = this.#meter(this.#client.writeStream(identity));
    const failure = this.#upstream.readReply(text, sink, identity.provider);
    const transform = new TranslatedStream(writer, sink, endedReader);
    return toResult(failure, { transform, opening: writer.take() });
  }

  /** Converts the text of a complete stream to a non-streaming response. */
  replyFromStream(text: string, identity: ReplyIdentity): ReadResult<TransformedReply> {
    const { writer, sink } = this.#meter(this.#client.writeReply(identity));
    const reader = this.#readStream(sink, identity);
    const events = new EventStreamReader();
    for (const message of [...events.push(text), ...events.end()]) {
      const failure = reader.push(message);
      if (failure !== undefined) return { ok: false, failure };
    }
    return { ok: true, value: toReply(writer, sink) };
  }

  /** Wraps a writer in a sink that measures the answer and restores tool names. */
  #meter<Writer extends AnswerSink>(writer: Writer) {
    return { writer, sink: new MeteringSink(writer, this.#toolNames) };
  }

  #readStream(sink: MeteringSink, { provider }: ReplyIdentity): StreamReader {
    return this.#upstream.readStream(sink, this.#toolNames.offered, provider);
  }
}

function toResult<Value>(failure: UpstreamFailure | undefined, value: Value): ReadResult<Value> {
  return failure === undefined ? { ok: true, value } : { ok: false, failure };
}

function toReply(writer: ReplyWriter, { metrics }: MeteringSink): TransformedReply {
  return { metrics, write: (settled) => writer.write(settled) };
}

/**
 * Replays a recorded stream as a non-streaming response, or the reverse. Returns undefined if the
 * recording can't be translated. The request is then sent upstream again.
 */
export function replayRecording(
  recording: Recording,
  dialect: DialectName,
  identity: ReplyIdentity,
  clientRequest: ClientRequest,
): TransformedReply | undefined {
  const upstream = dialects[dialect].chat;
  if (upstream === null) return undefined;
  try {
    const translation = new Translation(clientRequest.toPrompt(), clientRequest.client, upstream);
    return replayWith(translation, recording, identity);
  } catch (error) {
    if (error instanceof MalformedAnswer) return undefined;
    throw error;
  }
}

function replayWith(
  translation: Translation,
  { form, text }: Recording,
  identity: ReplyIdentity,
): TransformedReply | undefined {
  if (form === 'stream') {
    const reply = translation.replyFromStream(text, identity);
    return reply.ok ? reply.value : undefined;
  }
  const streamed = translation.streamReply(text, identity);
  if (!streamed.ok || !streamed.value.transform.finished) return undefined;
  const { transform, opening } = streamed.value;
  return { metrics: transform.metrics, write: (settled) => opening + transform.close(settled) };
}

/**
 * Returns true if there are no tools, or if the forced tool exists only in the client's dialect.
 */
function isToolMissing({ tools, toolChoice, unsupported }: Prompt): boolean {
  if (tools.length === 0) return true;
  if (toolChoice === null || typeof toolChoice === 'string') return false;
  const isToolDropped = unsupported.some((name) => name.startsWith('tools['));
  return isToolDropped && !tools.some(({ name }) => name === toolChoice.name);
}

interface ParsedRequest {
  readonly request: ChatRequestInfo;
  readonly body: { readonly temperature?: number | null };
  readonly source: RawBody | null;
}

/**
 * Removes the routing fields from a cache key. The key contains the resolved models and preferences
 * instead. JSON omits undefined fields.
 */
const noRoutingFields = {
  model: undefined,
  models: undefined,
  provider: undefined,
  route: undefined,
};

/**
 * The base class of all client requests. Subclasses forward the client's own body to upstreams of
 * the same dialect. For other upstreams, the request is translated.
 */
export abstract class AbstractClientRequest<Parsed extends ParsedRequest>
  implements ClientRequest, Adapter
{
  readonly request: ChatRequestInfo;
  readonly temperature: number | null;
  protected readonly parsed: Parsed;
  #prompt: Prompt | undefined;

  constructor(parsed: Parsed) {
    this.request = parsed.request;
    this.temperature = parsed.body.temperature ?? null;
    this.parsed = parsed;
  }

  abstract readonly streamFormat: StreamFormat;
  abstract readonly client: ClientDialect;
  /** The upstream side of the client's dialect. */
  protected abstract readonly ownUpstream: UpstreamDialect;
  protected abstract readPrompt(): Prompt;
  abstract withInstructions(text: string): ClientRequest;
  abstract cacheKeyInput(): unknown;
  abstract write(target: Target): UpstreamRequest;
  abstract transformStream(identity: ReplyIdentity): StreamTransform;
  abstract transformReply(text: string, identity: ReplyIdentity): ReadResult<TransformedReply>;

  get isStreamModeFixed(): boolean {
    return false;
  }

  /**
   * Returns the parsed request with added instructions. Its `source` is null, because the client's
   * text no longer matches the body.
   */
  protected appendInstructions(
    text: string,
    write: (body: Parsed['body'], text: string) => Parsed['body'],
  ): Parsed {
    const { parsed } = this;
    const inputBytes = parsed.request.inputBytes + Buffer.byteLength(text);
    const request = { ...parsed.request, inputBytes };
    const body = withExactNumbers(parsed.body, parsed.source);
    return { ...parsed, request, body: write(body, text), source: null };
  }

  /**
   * Combines everything that determines the answer, including the exact digits of numbers that
   * JavaScript rounds.
   */
  protected cacheKeyInputFor(dialect: string, fields: object, extra?: unknown): unknown {
    const { source } = this.parsed;
    return [
      dialect,
      { ...fields, ...noRoutingFields },
      extra,
      source ? longNumbersIn(source.text) : [],
    ];
  }

  adapterFor(dialect: DialectName): Adapter | undefined {
    const upstream = dialects[dialect].chat;
    if (upstream === this.ownUpstream) return this;
    return upstream === null ? undefined : new Translation(this.toPrompt(), this.client, upstream);
  }

  unsupportedPartFor(dialect: DialectName): UnsupportedPart | undefined {
    return dialects[dialect].chat === this.ownUpstream
      ? undefined
      : this.toPrompt().unsupportedPart;
  }

  toPrompt(): Prompt {
    this.#prompt ??= this.readPrompt();
    return this.#prompt;
  }

  streamReply(text: string, identity: ReplyIdentity): ReadResult<StreamedReply> | undefined {
    if (this.isStreamModeFixed) return undefined;
    return new Translation(this.toPrompt(), this.client, this.ownUpstream).streamReply(
      text,
      identity,
    );
  }
}
