import type { TranscriptFormat } from '../../core/audio-formats.ts';
import type { LongBytes } from '../../core/upload.ts';

/** A recording, named by what it really is. */
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
  /** Fields that nobody here has heard of; OpenAI-style upstreams may. */
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
      /** Everything else that it says. */
      readonly fields: Readonly<Record<string, unknown>>;
    };
