import { Type } from 'typebox';
import { type GatewayError, invalidRequest } from '../errors.ts';
import { oneOf, optional } from '../schema-builders.ts';

/** The formats that a text may be spoken in. */
export const speechFormats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const;
export type SpeechFormat = (typeof speechFormats)[number];

/** The media types of audio, by the extension of its file. */
export const audioTypes = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
  m4a: 'audio/mp4',
  mpeg: 'video/mpeg',
  ogg: 'audio/ogg',
  webm: 'audio/webm',
} as const;

/** The formats that a recording may be written down in. */
export const transcriptFormats = ['json', 'text', 'srt', 'verbose_json', 'vtt'] as const;
export type TranscriptFormat = (typeof transcriptFormats)[number];

/** The extension of a file that holds a transcript of this format. */
export const transcriptExtensions = {
  json: 'json',
  verbose_json: 'json',
  text: 'txt',
  srt: 'srt',
  vtt: 'vtt',
} as const satisfies Record<TranscriptFormat, string>;

/** What may be asked of speech, at once or as a job. */
export const speechFields = {
  voice: Type.String({ minLength: 1, maxLength: 200 }),
  response_format: optional(oneOf(...speechFormats)),
  /** Bounded only where the model's style says so. */
  speed: optional(Type.Number()),
  instructions: optional(Type.String({ maxLength: 4_096 })),
};

/** The longest text that one call takes. */
export interface TextLimit {
  readonly unit: 'characters' | 'bytes';
  readonly max: number;
}

/** How fast a text may be spoken where that is checked; 1 is as people speak. */
const [slowest, fastest] = [0.25, 4];

/** Why a model that checks voice and speed does not take these; null when it does. */
export function refusalOfManner(
  { voice, speed }: { readonly voice: string; readonly speed: number | null },
  voices: readonly string[] | null,
  model: string,
): GatewayError | null {
  if (voices && !voices.includes(voice)) {
    return invalidRequest(`voice must be one of ${voices.join(', ')} with ${model}.`, 'voice');
  }
  if (speed === null || (speed >= slowest && speed <= fastest)) return null;
  const range = `from ${slowest} to ${fastest}`;
  return invalidRequest(`speed must be a number ${range}, not ${speed}.`, 'speed');
}

export function refuseUnspeakable(input: string): void {
  if (input.trim() === '') throw invalidRequest('input is empty.', 'input');
  if (input.isWellFormed()) return;
  throw invalidRequest('input has half of a character: an unpaired surrogate.', 'input');
}

/** What may be asked of a transcription, at once or as a job. */
export const transcriptFields = {
  language: optional(
    Type.String({ pattern: '^[a-z]{2,3}$', expected: 'an ISO-639-1 code such as "en"' }),
  ),
  prompt: optional(Type.String({ maxLength: 4_096 })),
  response_format: optional(oneOf(...transcriptFormats)),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  timestamp_granularities: optional(Type.Array(oneOf('word', 'segment'), { maxItems: 2 })),
};

/** Only one form of a transcript has a place for times. */
export function refuseUntold(
  format: TranscriptFormat | null | undefined,
  granularities: readonly string[] | null | undefined,
): void {
  if (!granularities?.length || format === 'verbose_json') return;
  const message = 'timestamp_granularities needs the response_format verbose_json.';
  throw invalidRequest(message, 'timestamp_granularities');
}
