import { AssertionError } from 'node:assert';
import { errorBytesMax, eventBytesMax, replyBytesMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import { FrameDecoder, isFramed } from '../dialects/bedrock/frames.ts';
import type {
  Crossing,
  ReplyRelay,
  StreamRelay,
  UpstreamFailure,
  UpstreamRequest,
} from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
import { malformed, readFailure } from '../dialects/failure.ts';
import { UnusableAnswer } from '../dialects/unusable-answer.ts';
import type { Offer } from '../route/catalogue.ts';
import type { OpenBytes } from './bytes-answer.ts';
import { connectionFailure, refuseOwnFailure, send } from './client.ts';
import type { HttpAnswer } from './connection/answer.ts';
import { checkFor } from './guard/user-address.ts';
import { Line } from './line.ts';
import type { Link } from './link.ts';
import { over, readAll, Source, silence } from './source.ts';
import type { Tape } from './tape.ts';

/** How much text that only opens an answer is held back: an opening is one small chunk. */
const openingLengthMax = 16 * 1024;

/** Before an answer begins, OpenAI repeats the request's instructions and tools, twice. */
const prefaceLengthMax = 2 * eventBytesMax;

/** A stream whose first words are in hand; from here on there is no other attempt. */
export interface OpenStream {
  readonly kind: 'stream';
  readonly relay: StreamRelay;
  readonly reader: EventStreamReader;
  readonly source: Source;
  readonly line: Line;
  /** The text that the client sees first. */
  readonly opening: string;
  /** Whether the upstream closed before the first words were handed over. */
  readonly ended: boolean;
  /**
   * Called when the upstream has ended: opens a stream that follows it, or gives the last words.
   */
  readonly openSequel?: () => Promise<AttemptResult | string>;
}

interface WholeReply {
  readonly kind: 'reply';
  readonly relay: ReplyRelay;
}

interface Failed {
  readonly kind: 'failed';
  readonly failure: UpstreamFailure;
}

export type AttemptResult = OpenStream | OpenBytes | WholeReply | Failed;

interface AttemptOrder {
  readonly offer: Offer;
  readonly link: Link;
  readonly request: UpstreamRequest;
  readonly crossing: Omit<Crossing, 'write'>;
  readonly stream: boolean;
  /** Records the answer; not always the tape of the link. */
  readonly tape?: Tape | undefined;
  /** Time for the whole attempt, whatever the provider's own timeouts say. */
  readonly attemptMs?: number | undefined;
}

/** One try at one offer, up to the point where the client could see something of it. */
export async function attempt(order: AttemptOrder): Promise<AttemptResult> {
  const { offer, link, attemptMs } = order;
  const { provider } = offer;
  const idleMs = attemptMs ?? provider.idleTimeoutMs;
  const line = new Line(link.watch, link.client, attemptMs);
  line.expectWithin(attemptMs ?? provider.timeoutMs);
  let source: Source | undefined;
  try {
    const request = traced(order.request, link);
    const response = await send(provider, request, line, checkFor(offer, link.checkAddress));
    if (isShortReply(response, order)) {
      line.expectWithin(idleMs);
      const text = await response.text(() => line.expectWithin(idleMs));
      order.tape?.add(text);
      line.release();
      return replyOf(text, order);
    }
    if (!response.body) {
      line.hangUp();
      return failed(malformed('The provider sent an empty answer.'));
    }
    const decoder = response.ok && isFramed(response) ? new FrameDecoder() : new TextDecoder();
    source = new Source(response.body, line, { idleMs }, order.tape, decoder);
    const result = await readResponse(response, source, line, order);
    if (result.kind === 'stream') return result;
    source.close();
    if (result.kind === 'failed') line.hangUp();
    else line.release();
    return result;
  } catch (thrown) {
    source?.close();
    return failed(failureOf(thrown, line));
  }
}

/** Why a provider did not answer. Throws again what was not the provider's fault but ours. */
export function failureOf(thrown: unknown, line: Line): UpstreamFailure {
  line.hangUp();
  const isTold = thrown instanceof GatewayError;
  if (isTold ? thrown.symbol !== 'upstream_error' : isOwnMistake(thrown)) throw thrown;
  refuseOwnFailure(thrown, line.isShuttingDown);
  return isTold || thrown instanceof UnusableAnswer
    ? malformed(thrown.message)
    : connectionFailure(thrown, line.timedOut);
}

/** A mistake of this program must not be reported as a provider that cannot be reached. */
export function isOwnMistake(thrown: unknown): boolean {
  const mistakes = [ReferenceError, RangeError, AssertionError];
  if (mistakes.some((mistake) => thrown instanceof mistake)) return true;
  return thrown instanceof TypeError && !('code' in thrown);
}

/** Longer answers are read piece by piece: all of them together may not use up our memory. */
const shortBytesMax = 1024 * 1024;

/** A whole answer of a known length that is read in one go. */
function isShortReply(response: HttpAnswer, order: AttemptOrder): boolean {
  const { headers, ok } = response;
  const length = headers.get('content-length');
  return (
    ok &&
    !order.stream &&
    length !== null &&
    Number(length) <= shortBytesMax &&
    // Chunks may be of any length together, whatever length is told beside them.
    headers.get('transfer-encoding') === null &&
    isPlain(response) &&
    !isEventStream(response) &&
    !isFramed(response)
  );
}

/** Some servers name a character set in this header, which is no compression. */
const packed = /\b(?:gzip|deflate|compress|br|zstd)\b/i;

export function isPlain({ headers }: HttpAnswer): boolean {
  return !packed.test(headers.get('content-encoding') ?? '');
}

/** HTTP does not care how types are capitalised, and not every server writes them small. */
export function isEventStream({ headers }: HttpAnswer): boolean {
  return /^text\/event-stream/i.test(headers.get('content-type') ?? '');
}

function replyOf(text: string, order: AttemptOrder): AttemptResult {
  const reply = order.crossing.relayReply(text, order.link.identity);
  return 'kind' in reply ? failed(reply) : { kind: 'reply', relay: reply };
}

async function readResponse(
  response: HttpAnswer,
  source: Source,
  line: Line,
  order: AttemptOrder,
): Promise<AttemptResult> {
  // Not only 200: some servers answer every POST with 201.
  if (!response.ok) {
    // The status alone still tells a rate limit from a bad request.
    const text = (isPlain(response) && (await readAll(source, errorBytesMax))) || '';
    return failed(readFailure(response.status, text, response.headers, Date.now()));
  }
  if (!isPlain(response)) {
    return failed(malformed('The provider sent a compressed answer that was not asked for.'));
  }
  const isStream = isEventStream(response) || isFramed(response);
  const start = order.stream && !isStream ? await readStart(source) : '';
  if (order.stream && (isStream || eventStart.test(start))) {
    return readToFirstWords(source, line, order, start);
  }
  const rest = await readAll(source, replyBytesMax, (bytes) => order.link.claimRoom(bytes));
  if (rest === undefined) return failed(malformed('The provider sent an answer that is too long.'));
  const text = start + rest;
  // Some servers call every answer a stream, whatever it is.
  if (!order.stream && !(isStream && eventStart.test(text))) return replyOf(text, order);
  const { crossing, tape } = order;
  const { identity } = order.link;
  const streamed = order.stream ? crossing.streamReply(text, identity) : undefined;
  if (!streamed || 'kind' in streamed) {
    return unexpectedForm(streamed ?? crossing.relayReply(text, identity), response);
  }
  tape?.hearsWhole();
  const reader = new EventStreamReader();
  return { kind: 'stream', ...streamed, reader, source, line, ended: true };
}

/** How a stream of events begins, whatever type its server gives it. */
const eventStart = /^\s*(?:data|event|id|retry)?:/;

/** Enough of an answer for `eventStart` to tell what it is. */
async function readStart(source: Source): Promise<string> {
  let start = '';
  while (start.trimStart().length < 'retry:'.length && start.length < openingLengthMax) {
    const piece = await source.next();
    if (piece === over) break;
    if (piece !== silence) start += piece;
  }
  return start;
}

/**
 * Reads on until the answer has its first words, or failed before it had. Chunks that only open
 * the answer are held back: as long as nobody saw them, another provider can still take over.
 */
async function readToFirstWords(
  source: Source,
  line: Line,
  order: AttemptOrder,
  start: string,
): Promise<AttemptResult> {
  const relay = order.crossing.relayStream(order.link.identity);
  const reader = new EventStreamReader();
  let opening = '';
  let ended = false;
  let first = start;
  while (!hasWords(relay) && !ended && !relay.ended && opening.length < openingMax(relay)) {
    const piece = first || (await source.next());
    first = '';
    if (piece === silence) {
      // The model thinks for long after its opening: now the client should hear from us.
      if (relay.started) break;
      continue;
    }
    const messages = piece === over ? reader.end() : reader.push(piece);
    ended = piece === over;
    const { length } = opening;
    for (const message of messages) opening += relay.push(message);
    source.noteWords(opening.length > length);
    const { failure } = relay.facts;
    if (failure && !hasWords(relay)) return failed(failure);
  }
  if (!relay.started || ((ended || relay.ended) && !hasWords(relay))) {
    return failed(malformed('The provider ended its stream without an answer.'));
  }
  return { kind: 'stream', relay, reader, source, line, opening, ended };
}

function openingMax({ started }: StreamRelay): number {
  return started ? openingLengthMax : prefaceLengthMax;
}

function hasWords({ started, finished, facts }: StreamRelay): boolean {
  return started && (finished || facts.outputCharacters > 0);
}

/** An answer in a form that was not asked for and cannot be used; perhaps it says why. */
function unexpectedForm(reply: ReplyRelay | UpstreamFailure, response: HttpAnswer): AttemptResult {
  if ('kind' in reply && reply.kind !== 'malformed') return failed(reply);
  const type = response.headers.get('content-type')?.split(';')[0] ?? 'no content type';
  return failed(malformed(`The provider answered with ${type}, which was not asked for.`));
}

export function failed(failure: UpstreamFailure): Failed {
  return { kind: 'failed', failure };
}

/** The same request, telling the provider which trace it belongs to. */
export function traced(request: UpstreamRequest, { traceparent }: Link): UpstreamRequest {
  if (traceparent === undefined) return request;
  return { ...request, headers: { ...request.headers, traceparent } };
}
