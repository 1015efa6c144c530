import { errorBytesMax, wordlessBytesMax } from '../core/bounds.ts';
import type { UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
import { failureInside, malformed, readFailure } from '../dialects/failure.ts';
import type { AudioEvents } from '../dialects/media/speech.ts';
import { readAnswer } from '../dialects/read-answer.ts';
import { UnusableAnswer } from '../dialects/unusable-answer.ts';
import type { Offer } from '../route/catalogue.ts';
import type { AttemptResult } from './attempt.ts';
import { failed, failureOf, isEventStream, isPlain, traced } from './attempt.ts';
import { type BytePieces, ByteSource } from './byte-source.ts';
import type { OpenBytes } from './bytes-answer.ts';
import { send } from './client.ts';
import type { AnswerHeaders, HttpAnswer } from './connection/answer.ts';
import { checkFor } from './guard/user-address.ts';
import { Line } from './line.ts';
import type { Link } from './link.ts';
import { readAll, Source } from './source.ts';
import { noFacts } from './try-whole.ts';

/** A question whose answer goes to the client as it comes. */
interface BytesQuestion {
  readonly request: UpstreamRequest;
  /** The content type that the client is told, judged by the first bytes. */
  readonly typeOf: (first: Uint8Array) => string;
  /** For answers that come as events. */
  readonly openEvents?: (() => AudioEvents) | undefined;
}

/** One try, up to the point where the first bytes are in hand. */
export async function tryBytes(
  question: BytesQuestion,
  offer: Offer,
  link: Link,
): Promise<AttemptResult> {
  const { provider } = offer;
  const line = new Line(link.watch, link.client);
  line.expectWithin(provider.timeoutMs);
  try {
    const request = traced(question.request, link);
    const response = await send(provider, request, line, checkFor(offer, link.checkAddress));
    const peer = { line, idleMs: provider.idleTimeoutMs };
    const result = await open(response, question, peer);
    if (result.kind === 'failed') line.hangUp();
    return result;
  } catch (thrown) {
    return failed(failureOf(thrown, line));
  }
}

/** The connection that the answer comes over, and how long it may be silent. */
interface Peer {
  readonly line: Line;
  readonly idleMs: number;
}

/** The text at the beginning of an answer that is no audio. */
async function textOf({ body }: HttpAnswer, { line, idleMs }: Peer): Promise<string> {
  if (!body) return '';
  const source = new Source(body, line, { idleMs });
  try {
    return (await readAll(source, errorBytesMax)) ?? '';
  } finally {
    source.close();
  }
}

const audio = /^(?:audio\/|application\/ogg|(?:application|binary)\/octet-stream)/i;

async function open(
  response: HttpAnswer,
  question: BytesQuestion,
  peer: Peer,
): Promise<AttemptResult> {
  const { ok, status, headers, body } = response;
  if (!ok) {
    const text = isPlain(response) ? await textOf(response, peer) : '';
    return failed(readFailure(status, text, headers, Date.now()));
  }
  if (!isPlain(response)) {
    return failed(malformed('The provider sent a compressed answer that was not asked for.'));
  }
  const type = headers.get('content-type') ?? '';
  const events = isEventStream(response) ? question.openEvents?.() : undefined;
  if (type !== '' && !audio.test(type) && !events) {
    return failed(noAudio(type, await textOf(response, peer)));
  }
  if (!body) return failed(malformed('The provider sent an empty answer.'));
  const length = events ? null : lengthIn(headers);
  const source = new ByteSource(body, peer.line, peer.idleMs, length);
  const pieces: BytePieces = events ? new EventPieces(source, events) : source;
  const first = await pieces.next();
  if (!first) return failed(malformed('The provider ended its answer before any audio.'));
  return {
    kind: 'bytes',
    contentType: question.typeOf(first),
    contentLength: length,
    first,
    next: () => pieces.next(),
    line: peer.line,
    facts: factsOf(events),
  };
}

function lengthIn(headers: AnswerHeaders): number | null {
  const length = headers.get('content-length');
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null;
}

/** An answer that is no audio; perhaps it says why. */
function noAudio(type: string, text: string): UpstreamFailure {
  const [plain = ''] = type.split(';');
  const unasked = malformed(`The provider answered with ${plain}, which was not asked for.`);
  const read = readAnswer(text, (body) => failureInside(body) ?? unasked);
  return read.kind === 'malformed' ? unasked : read;
}

/** The usage is known only when the last event was read. */
function factsOf(events: AudioEvents | undefined): OpenBytes['facts'] {
  return {
    ...noFacts,
    get usage() {
      return events?.usage;
    },
  };
}

/** The bytes that events carry. */
class EventPieces implements BytePieces {
  readonly #source: ByteSource;
  readonly #events: AudioEvents;
  readonly #reader = new EventStreamReader();
  readonly #decoder = new TextDecoder();
  #waiting: Uint8Array[] = [];
  /** Bytes that have come since the last audio. */
  #soundlessBytes = 0;

  constructor(source: ByteSource, events: AudioEvents) {
    this.#source = source;
    this.#events = events;
  }

  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const waiting = this.#waiting.shift();
      if (waiting) return waiting;
      if (this.#events.finished) return undefined;
      const chunk = await this.#source.next();
      const text = this.#decoder.decode(chunk ?? new Uint8Array(), { stream: chunk !== undefined });
      const messages = this.#reader.push(text);
      if (!chunk) messages.push(...this.#reader.end());
      this.#soundlessBytes += chunk?.length ?? 0;
      for (const message of messages) this.#take(this.#events.push(message));
      if (this.#soundlessBytes > wordlessBytesMax) {
        throw new UnusableAnswer(`${wordlessBytesMax} bytes without a sound`);
      }
      if (!chunk && !this.#events.finished) throw cutShort('before its last event');
    }
  }

  #take(found: Uint8Array | UpstreamFailure | undefined): void {
    if (found && !(found instanceof Uint8Array)) throw cutShort(`with ${found.message}`);
    if (!found?.length) return;
    this.#waiting.push(found);
    this.#soundlessBytes = 0;
  }
}

/** The error of an answer that ended before it was whole. */
function cutShort(how: string): Error {
  return new Error(`The provider broke off ${how}.`);
}
