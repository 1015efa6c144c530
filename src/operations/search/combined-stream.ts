import type { GatewayError } from '../../core/errors.ts';
import type { Usage } from '../../core/usage.ts';
import type {
  AnswerMetrics,
  ClientDialect,
  SettledUsage,
  SseMessage,
  StreamTransform,
  StreamWriter,
  UpstreamFailure,
} from '../../dialects/dialect.ts';
import { malformed } from '../../dialects/failure.ts';
import {
  type AttemptResult,
  failed,
  failureFrom,
  type OpenStream,
} from '../../upstream/attempt.ts';
import { endOfStream, silence } from '../../upstream/text-source.ts';
import { forwardTo } from './recorded-answer.ts';
import type { SearchSession } from './session.ts';

/** The parts of a stream writer that frame its output. */
type StreamFraming = Pick<StreamWriter, 'take' | 'close' | 'fail' | 'keepAlive'>;

/** Used for non-streaming responses, which are written after the last round. */
export const noFraming: StreamFraming = {
  take: () => '',
  close: () => '',
  fail: () => '',
  keepAlive: () => '',
};

/** Writes each upstream answer to its round. All rounds share the framing. */
export function roundClient(
  session: Pick<SearchSession, 'round'>,
  framing: StreamFraming,
): ClientDialect {
  return {
    writeReply: () => ({ ...forwardTo(session.round), write: () => '' }),
    writeStream() {
      const { round } = session;
      return {
        ...forwardTo(round),
        take: () => framing.take(),
        close: (settled) => framing.close(settled),
        fail: (error) => framing.fail(error),
        keepAlive: () => framing.keepAlive(),
      };
    },
  };
}

/** Combines the metrics of all rounds into the metrics of one answer. */
export class CombinedMetrics implements AnswerMetrics {
  readonly #session: SearchSession;
  #previousCharacters = 0;
  #current: AnswerMetrics | undefined;

  constructor(session: SearchSession) {
    this.#session = session;
  }

  begin(round: AnswerMetrics): void {
    this.#previousCharacters = this.outputCharacters;
    this.#current = round;
  }

  get usage(): Usage | undefined {
    return this.#session.usage;
  }

  get finishReason(): string | undefined {
    return this.#session.finishReason;
  }

  get outputCharacters(): number {
    return this.#previousCharacters + (this.#current?.outputCharacters ?? 0);
  }

  get failure(): UpstreamFailure | undefined {
    return this.#current?.failure;
  }
}

/** Joins the upstream streams of all rounds into one stream to the client. */
export class CombinedTransform implements StreamTransform {
  readonly metrics: CombinedMetrics;
  #current: StreamTransform;

  constructor(first: StreamTransform, session: SearchSession) {
    this.#current = first;
    this.metrics = new CombinedMetrics(session);
    this.metrics.begin(first.metrics);
  }

  begin(round: StreamTransform): void {
    this.#current = round;
    this.metrics.begin(round.metrics);
  }

  get started(): boolean {
    return this.#current.started;
  }

  get finished(): boolean {
    return this.#current.finished;
  }

  get ended(): boolean {
    return this.#current.ended;
  }

  push(message: SseMessage): string {
    return this.#current.push(message);
  }

  close(settled: SettledUsage): string {
    return this.#current.close(settled);
  }

  fail(error: GatewayError): string {
    return this.#current.fail(error);
  }

  keepAlive(): string {
    return this.#current.keepAlive();
  }
}

/** Queries are short. If the output is longer, it is streamed, so that its hold grows with it. */
const silentCharactersMax = 16 * 1024;

/**
 * Reads rounds until one has output for the client. A failure before that is treated like any
 * failed attempt: it costs nothing, and another provider may be tried.
 */
export async function readSilentRounds(
  first: OpenStream,
  isSilent: () => boolean,
  clientSignal: AbortSignal,
): Promise<AttemptResult> {
  let stream = first;
  while (isSilent() && stream.transform.metrics.outputCharacters <= silentCharactersMax) {
    const next = await advance(stream);
    // If the client disconnects, it pays for the work so far, as it does after the first output.
    if (clientSignal.aborted) break;
    if (next.kind !== 'stream') return next;
    stream = next;
    if (stream.ended && !stream.openContinuation) break;
  }
  return stream;
}

async function advance(stream: OpenStream): Promise<AttemptResult> {
  const { transform, source, upstreamCall, ended } = stream;
  const { failure } = transform.metrics;
  const isBroken = ended && !transform.finished;
  if (!failure && !isBroken) return ended ? openNextRound(stream) : readChunk(stream);
  source.close();
  upstreamCall.cancel();
  return failed(failure ?? malformed("The provider's response ended early."));
}

/** Reads one more chunk of the stream. */
async function readChunk(stream: OpenStream): Promise<AttemptResult> {
  const { transform, reader, source, upstreamCall } = stream;
  try {
    source.expectEnd(transform);
    const chunk = await source.next();
    if (chunk === silence) return stream;
    let { opening } = stream;
    const { outputCharacters } = transform.metrics;
    const messages = chunk === endOfStream ? reader.end() : reader.push(chunk);
    for (const message of messages) opening += transform.push(message);
    const hasNewOutput = transform.metrics.outputCharacters > outputCharacters;
    if (hasNewOutput) source.expectMore();
    source.recordProgress(messages.length, hasNewOutput);
    return { ...stream, opening, ended: chunk === endOfStream };
  } catch (error) {
    source.close();
    return failed(failureFrom(error, upstreamCall));
  }
}

/** Opens the round after one that has ended, or appends the closing text. */
async function openNextRound(stream: OpenStream): Promise<AttemptResult> {
  const { opening, source, upstreamCall, openContinuation } = stream;
  source.close();
  upstreamCall.cancel();
  const next = await openContinuation?.();
  if (!next || next.kind === 'closing') {
    const { openContinuation: _, ...last } = stream;
    return { ...last, opening: opening + (next?.text ?? '') };
  }
  return next.kind === 'stream' ? { ...next, opening: opening + next.opening } : next;
}
