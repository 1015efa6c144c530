import type { SpeechFormat } from '../../core/audio-formats.ts';

/** What clients are told that the bytes are. */
export const speechTypes: Readonly<Record<SpeechFormat, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
};

/** A text to be spoken, with a voice that the upstream knows. */
export interface SpeechWish {
  readonly input: string;
  readonly voice: string;
  readonly format: SpeechFormat;
  /** Null where the client said nothing, or where it is not followed. */
  readonly speed: number | null;
  readonly instructions: string | null;
  /** The audio shall come in events, which tell the tokens used. */
  readonly asEvents: boolean;
  /** Fields that nobody here has heard of; upstreams may. */
  readonly more: Readonly<Record<string, unknown>>;
}
