import type { DialectName } from '../config/provider-schema.ts';
import type { GatewayError } from '../core/errors.ts';
import type { Prompt, UnsupportedPart } from '../core/prompt.ts';
import type { Recording } from '../core/recording.ts';
import type { ChatRequestInfo } from '../core/request-info.ts';
import type {
  Adapter,
  AnswerMetrics,
  ClientDialect,
  ClientRequest,
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
import { EventStreamReader } from './events.ts';
import { MalformedAnswer } from './failure.ts';
import { longNumbersIn } from './normalize/exact-json.ts';
import { withFetchedImages } from './normalize/requests/content.ts';
import { type Source, withExactNumbers } from './normalize/requests/edit-body.ts';
import { withCurrentSchemas } from './normalize/requests/tool-schema.ts';
import { isForced, rejectTooManyArguments, ToolNames } from './normalize/requests/tools.ts';
import { MeteringSink } from './normalize/responses/answer-metrics.ts';
import { upstreamDialect } from './registry.ts';

/**
 * The way between two different dialects: an upstream's reader tells the answer in our words, a
 * client's writer listens, and a tally in between keeps what the meter and the log need.
 */

class TranslatedStream implements StreamTransform {
  readonly #writer: StreamWriter;
  readonly #sink: MeteringSink;
  readonly #reader: StreamReader;
  /** After a failure or the last words, nothing more is passed on. */
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
    return this.#reader.finished && !this.#writer.hasOpenToolCall;
  }

  get ended(): boolean {
    return this.#reader.ended ?? false;
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

/** The reader in place of a stream's, for an upstream that sent its answer whole. */
const endedReader: StreamReader = { push: () => undefined, finished: true, ended: true };

/** From a client that wrote a dialogue to an upstream, and back. */
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
    // A tool that is not there cannot be forced: the wish is left out, and the client is told so.
    const isToolChoiceInvalid = isForced(prompt.toolChoice) && isToolMissing(prompt);
    const satisfiable = isToolChoiceInvalid ? { ...prompt, toolChoice: null } : prompt;
    const withImages = withFetchedImages(satisfiable, target.images);
    const normalized = withCurrentSchemas(this.#toolNames.shortenIn(withImages));
    const request = this.#upstream.write(normalized, target);
    const dropped = [...(request.dropped ?? []), ...(isToolChoiceInvalid ? ['tool_choice'] : [])];
    // Well-known names first: the header has room for some, and clients may send any number.
    return { ...request, dropped: [...new Set([...dropped, ...prompt.foreign])] };
  }

  transformStream(identity: ReplyIdentity): StreamTransform {
    const writer = this.#client.writeStream(identity);
    const sink = new MeteringSink(writer, this.#toolNames);
    const reader = this.#upstream.readStream(sink, this.#toolNames.offered);
    return new TranslatedStream(writer, sink, reader);
  }

  transformReply(text: string, identity: ReplyIdentity): ReadResult<TransformedReply> {
    const writer = this.#client.writeReply(identity);
    const sink = new MeteringSink(writer, this.#toolNames);
    return toResult(this.#upstream.readReply(text, sink), translatedReply(writer, sink));
  }

  streamReply(text: string, identity: ReplyIdentity): ReadResult<StreamedReply> {
    const writer = this.#client.writeStream(identity);
    const sink = new MeteringSink(writer, this.#toolNames);
    const failure = this.#upstream.readReply(text, sink);
    const transform = new TranslatedStream(writer, sink, endedReader);
    return toResult(failure, { transform, opening: writer.take() });
  }

  /** Turns the text of a whole stream into a reply; answers the failure in the stream, if any. */
  replyFromStream(text: string, identity: ReplyIdentity): ReadResult<TransformedReply> {
    const writer = this.#client.writeReply(identity);
    const sink = new MeteringSink(writer, this.#toolNames);
    const reader = this.#upstream.readStream(sink, this.#toolNames.offered);
    const events = new EventStreamReader();
    for (const message of [...events.push(text), ...events.end()]) {
      const failure = reader.push(message);
      if (failure !== undefined) return { ok: false, failure };
    }
    return { ok: true, value: translatedReply(writer, sink) };
  }
}

function toResult<Value>(failure: UpstreamFailure | undefined, value: Value): ReadResult<Value> {
  return failure === undefined ? { ok: true, value } : { ok: false, failure };
}

function translatedReply(writer: ReplyWriter, { metrics }: MeteringSink): TransformedReply {
  return { metrics, write: (settled) => writer.write(settled) };
}

/**
 * A recorded answer in the other form: a stream as a whole reply, or the reverse. Undefined when a
 * recording that was passed through has something that cannot be translated; then the upstream is
 * asked again.
 */
export function replayRecording(
  recording: Recording,
  dialect: DialectName,
  identity: ReplyIdentity,
  clientRequest: ClientRequest,
): TransformedReply | undefined {
  const upstream = upstreamDialect(dialect);
  if (!upstream) return undefined;
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
 * Whether there is no tool to force: none goes upstream, or only the client's dialect has the named
 * one.
 */
function isToolMissing({ tools, toolChoice, foreign }: Prompt): boolean {
  if (tools.length === 0) return true;
  if (toolChoice === null || typeof toolChoice === 'string') return false;
  const isToolDropped = foreign.some((name) => name.startsWith('tools['));
  return isToolDropped && !tools.some(({ name }) => name === toolChoice.name);
}

interface ParsedRequest {
  readonly request: ChatRequestInfo;
  readonly body: { readonly temperature?: number | null };
  readonly source: Source | null;
}

/**
 * Routing fields say where a request goes, not what it asks; the cache key has the chain of models
 * and the preferences instead, alike for all spellings. As undefined, they are not written.
 */
const noRoutingFields = {
  model: undefined,
  models: undefined,
  provider: undefined,
  route: undefined,
};

/**
 * What all client dialects have in common. An upstream that speaks the client's dialect gets the
 * client's own text, passed through by the subclass; any other upstream gets a translation.
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
  /** The upstream dialect that is the client's own. */
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

  /** The request with instructions of the gateway: longer, and no longer the client's text. */
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
   * Everything that decides the answer to a request in this dialect: the fields `asked`, `more`
   * that is not among them, and the numbers that JavaScript would round.
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
    const upstream = upstreamDialect(dialect);
    if (upstream === this.ownUpstream) return this;
    return upstream && new Translation(this.toPrompt(), this.client, upstream);
  }

  unsupportedPartFor(dialect: DialectName): UnsupportedPart | undefined {
    return upstreamDialect(dialect) === this.ownUpstream
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
