import { strict as assert } from 'node:assert';
import type { Errand, Sameness } from '../call.ts';
import type { Ask } from '../core/ask.ts';
import { transcriptionAttemptMsMax } from '../core/bounds.ts';
import { invalidRequest } from '../core/errors.ts';
import type { Recording } from '../core/recording.ts';
import { type Measured, noUnits, noUsage } from '../core/usage.ts';
import type { ReplyIdentity, ReplyRelay } from '../dialects/dialect.ts';
import type { Recorded, Transcript, TranscriptionWish } from '../dialects/media/transcription.ts';
import { transcriptionDialect } from '../dialects/media/transcription.ts';
import type { TranscriptionRequest } from '../dialects/openai/media/transcription-request.ts';
import { FixedBounds } from '../meter/bound.ts';
import type { Offer } from '../route/catalogue.ts';
import { type AttemptResult, failed } from '../upstream/attempt.ts';
import type { Link } from '../upstream/link.ts';
import { isFailure, noFacts, tryWhole } from '../upstream/try-whole.ts';
import { likelySeconds, secondsMax } from './audio/length.ts';
import { targetAt } from './target.ts';

/** A recording that a client sent. */
export interface SentAudio extends Recorded {
  readonly sha256: string;
  /** The length that the file's own headers state; null when they do not. */
  readonly seconds: number | null;
}

/** A recording to be written down; the provider says how long it is, and that is charged. */
export class TranscriptionErrand implements Errand {
  readonly ask: Ask;
  readonly bounds: FixedBounds;
  readonly #wish: TranscriptionWish;
  readonly #audio: SentAudio;
  /** A long recording may take longer than the provider's own timeout allows. */
  readonly #patienceMs: number;
  /** The length of the audio, as the provider said; null when it did not. */
  #reportedSeconds: number | null = null;

  constructor({ ask, wish }: TranscriptionRequest, audio: SentAudio) {
    this.ask = ask;
    this.#wish = wish;
    this.#audio = audio;
    const audioMs = Math.ceil(likelySeconds(audio.content.bytes, audio.seconds) * 1000);
    this.#patienceMs = Math.min(audioMs / 10, transcriptionAttemptMsMax);
    this.bounds = new FixedBounds({ usage: noUsage, units: { audioMs } });
  }

  misfit({ model, dialect }: Offer): string | null {
    if (!model.features.includes('transcription')) return 'is not a transcription model';
    if (transcriptionDialect(dialect)) return null;
    return 'cannot be asked for transcripts where it is served';
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    const { format } = this.#wish;
    const formatsAt = ({ dialect }: Offer) => transcriptionDialect(dialect)?.formats ?? [];
    const fitting = plan.filter((offer) => formatsAt(offer).includes(format));
    const [first] = plan;
    if (fitting.length > 0 || !first) return fitting;
    const known = formatsAt(first).join(', ');
    const message = `response_format must be one of ${known} with ${first.model.id}.`;
    throw invalidRequest(message, 'response_format');
  }

  async tryAt(offer: Offer, link: Link): Promise<AttemptResult> {
    const dialect = transcriptionDialect(offer.dialect);
    assert(dialect, `No transcripts at ${offer.dialect} were planned.`);
    const { format } = this.#wish;
    const request = dialect.write(this.#wish, this.#audio, targetAt(offer));
    link.tellDropped(request.dropped ?? []);
    const read = (text: string) => dialect.read(text, format);
    const patience = this.#patienceMs > offer.provider.timeoutMs && { attemptMs: this.#patienceMs };
    const transcript = await tryWhole<Transcript>({ request, read, ...patience }, offer, link);
    if (isFailure(transcript)) return failed(transcript);
    this.#reportedSeconds = transcript.kind === 'fields' ? transcript.seconds : null;
    const body = bodyOf(this.#credible(transcript), this.#wish, link.identity);
    link.tape?.begin(offer, 'whole');
    link.tape?.add(body);
    return { kind: 'reply', relay: { facts: noFacts, write: () => body } };
  }

  /** The client sees the length that it is charged for. */
  #credible(transcript: Transcript): Transcript {
    if (transcript.kind === 'text' || transcript.seconds === null) return transcript;
    return { ...transcript, seconds: this.#credibleSeconds(transcript.seconds) };
  }

  /** A length that this file cannot have gives way to the one that credits were held for. */
  #credibleSeconds(reported: number): number {
    const { content, seconds } = this.#audio;
    return reported <= secondsMax(content.bytes) ? reported : likelySeconds(content.bytes, seconds);
  }

  measure(): Measured {
    const reported = this.#reportedSeconds;
    if (reported === null) {
      const note = 'The provider did not tell how long the audio is, so nothing is charged.';
      return { usage: noUsage, units: noUnits, isEstimate: false, isFree: true, note };
    }
    const seconds = this.#credibleSeconds(reported);
    const isEstimate = seconds < reported;
    const note = isEstimate ? 'The provider told a length that this file cannot have.' : null;
    return { usage: noUsage, units: { audioMs: seconds * 1000 }, isEstimate, note };
  }

  sameness(): Sameness {
    const { sha256 } = this.#audio;
    const isRepeatable = this.#wish.temperature === 0;
    return { wording: () => ({ ...this.#wish, sha256 }), isRepeatable };
  }

  replay({ text }: Recording): ReplyRelay {
    return { facts: noFacts, write: () => text };
  }
}

/** The body in the client's format; never with the upstream's own name of the model. */
function bodyOf(
  transcript: Transcript,
  { format }: TranscriptionWish,
  { model }: ReplyIdentity,
): string {
  const { text } = transcript;
  if (transcript.kind === 'text') return text;
  if (format === 'text') return `${text}\n`;
  const { fields, seconds } = transcript;
  return JSON.stringify({
    ...(format === 'verbose_json' ? { task: 'transcribe' } : {}),
    text,
    ...fields,
    ...('model' in fields ? { model } : {}),
    ...(seconds === null ? {} : { duration: seconds }),
  });
}
