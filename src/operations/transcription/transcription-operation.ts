import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import { transcriptionAttemptMsMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import type { Recording } from '../../core/recording.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { type Measured, noUnits, noUsage } from '../../core/usage.ts';
import type { ReplyIdentity, TransformedReply } from '../../dialects/dialect.ts';
import type { AudioFile, Transcript, TranscriptionOptions } from '../../dialects/media.ts';
import type { TranscriptionRequest } from '../../dialects/openai-media/transcription.ts';
import { dialects } from '../../dialects/registry.ts';
import { FixedBounds } from '../../money/price/bounds.ts';
import type { Offer } from '../../route/catalog.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';
import {
  type AttemptResult,
  attemptFull,
  failed,
  mediaTargetFor,
  noMetrics,
} from '../../upstream/attempt.ts';
import { estimatedSeconds, plausibleSeconds } from './audio-file.ts';

/** An audio file that a client uploaded. */
export interface UploadedAudio extends AudioFile {
  readonly sha256: string;
  /** The duration stated in the file's headers, or null. */
  readonly seconds: number | null;
}

/** A transcription of an audio file. The duration that the provider reports is charged. */
export class TranscriptionOperation implements Operation {
  readonly request: RequestInfo;
  readonly bounds: FixedBounds;
  readonly #options: TranscriptionOptions;
  readonly #audio: UploadedAudio;
  /** The attempt's timeout if it exceeds the provider's, because a long file takes longer. */
  readonly #attemptMs: number;
  /** The duration that the provider reported, or null. */
  #reportedSeconds: number | null = null;

  constructor({ request, options }: TranscriptionRequest, audio: UploadedAudio) {
    this.request = request;
    this.#options = options;
    this.#audio = audio;
    const audioMs = Math.ceil(estimatedSeconds(audio.content.bytes, audio.seconds) * 1000);
    this.#attemptMs = Math.min(audioMs / 10, transcriptionAttemptMsMax);
    this.bounds = new FixedBounds({ usage: noUsage, units: { audioMs } });
  }

  incompatibility({ model, dialect }: Offer): string | null {
    if (!model.features.includes('transcription')) return 'is not a transcription model';
    if (dialects[dialect].transcription) return null;
    return 'has no transcription endpoint';
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    const { format } = this.#options;
    const formatsFor = ({ dialect }: Offer) => dialects[dialect].transcription?.formats ?? [];
    const fitting = plan.filter((offer) => formatsFor(offer).includes(format));
    const [first] = plan;
    if (fitting.length > 0 || !first) return fitting;
    const supported = formatsFor(first).join(', ');
    const message = `response_format must be one of ${supported} for ${first.model.id}.`;
    throw invalidRequest(message, 'response_format');
  }

  lostFields(offer: Offer): readonly string[] {
    const dialect = dialects[offer.dialect].transcription;
    return dialect?.write(this.#options, this.#audio, mediaTargetFor(offer)).dropped ?? [];
  }

  async tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const dialect = dialects[offer.dialect].transcription;
    assert(dialect, `The plan has an offer whose dialect can't transcribe: ${offer.dialect}.`);
    const { format } = this.#options;
    const request = dialect.write(this.#options, this.#audio, mediaTargetFor(offer));
    context.reportDropped(request.dropped ?? []);
    const read = (text: string) => dialect.read(text, format);
    const timeout = this.#attemptMs > offer.provider.timeoutMs && { attemptMs: this.#attemptMs };
    const result = await attemptFull<Transcript>({ request, read, ...timeout }, offer, context);
    if (!result.ok) return failed(result.failure);
    const transcript = result.value;
    this.#reportedSeconds = transcript.kind === 'fields' ? transcript.seconds : null;
    const body = writeBody(
      this.#withPlausibleDuration(transcript),
      this.#options,
      context.identity,
    );
    context.recorder?.begin(offer, 'reply');
    context.recorder?.add(body);
    return { kind: 'reply', reply: { metrics: noMetrics, write: () => body } };
  }

  /** Replaces an implausible duration, so that the client sees the duration it is charged for. */
  #withPlausibleDuration(transcript: Transcript): Transcript {
    if (transcript.kind === 'text' || transcript.seconds === null) return transcript;
    return { ...transcript, seconds: this.#plausibleSeconds(transcript.seconds) };
  }

  #plausibleSeconds(reported: number): number | null {
    const { content, seconds } = this.#audio;
    return plausibleSeconds(reported, content.bytes, seconds);
  }

  measure(): Measured {
    const reported = this.#reportedSeconds;
    const seconds = reported === null ? null : this.#plausibleSeconds(reported);
    if (seconds === null) {
      const note = 'The provider did not report the duration of the audio, so nothing is charged.';
      return { usage: noUsage, units: noUnits, isEstimate: false, isFree: true, note };
    }
    const isEstimate = seconds !== reported;
    const note = isEstimate ? 'The provider reported an implausible duration for this file.' : null;
    return { usage: noUsage, units: { audioMs: seconds * 1000 }, isEstimate, note };
  }

  cacheIdentity(): CacheIdentity {
    const { sha256 } = this.#audio;
    const isRepeatable = this.#options.temperature === 0;
    return { cacheKeyInput: () => ({ ...this.#options, sha256 }), isRepeatable };
  }

  replay({ text }: Recording): TransformedReply {
    return { metrics: noMetrics, write: () => text };
  }
}

/** Writes the body in the client's format, without the upstream's model name. */
function writeBody(
  transcript: Transcript,
  { format }: TranscriptionOptions,
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
