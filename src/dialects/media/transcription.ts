import type { DialectName } from '../../config/provider-schema.ts';
import type { TranscriptFormat } from '../../core/media/audio-formats.ts';
import type { LongBytes } from '../../core/upload.ts';
import type { MediaTarget, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { openAiTranscription } from '../openai/media/transcription.ts';
import { siliconFlowTranscription } from '../siliconflow/transcription.ts';

/** A recording, under the name and type that its bytes really have. */
export interface Recorded {
  /** `audio.<extension>` */
  readonly filename: string;
  readonly contentType: string;
  readonly content: LongBytes;
}

/** How a client wants a recording written down. */
export interface TranscriptionWish {
  readonly format: TranscriptFormat;
  readonly language: string | null;
  readonly prompt: string | null;
  readonly temperature: number | null;
  /** Of `word` and `segment`: which times `verbose_json` carries. */
  readonly granularities: readonly string[];
  /** Fields that the gateway does not know; OpenAI-style upstreams may. */
  readonly more: Readonly<Record<string, readonly string[]>>;
}

/** What an upstream heard. */
export type Transcript =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'fields';
      readonly text: string;
      /** How long the recording is, as far as the upstream says. */
      readonly seconds: number | null;
      /** Everything else that the upstream says. */
      readonly fields: Readonly<Record<string, unknown>>;
    };

/** How a dialect writes recordings down. */
export interface TranscriptionDialect {
  readonly formats: readonly TranscriptFormat[];
  write(wish: TranscriptionWish, audio: Recorded, target: MediaTarget): UpstreamRequest;
  read(text: string, format: TranscriptFormat): Transcript | UpstreamFailure;
}

const dialects: Partial<Record<DialectName, TranscriptionDialect>> = {
  openai: openAiTranscription,
  siliconflow: siliconFlowTranscription,
};

/** Undefined when that dialect has no transcription. */
export function transcriptionDialect(name: DialectName): TranscriptionDialect | undefined {
  return dialects[name];
}
