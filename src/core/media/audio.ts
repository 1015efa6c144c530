import { Type } from 'typebox';
import { type GatewayError, invalidRequest } from '../errors.ts';
import { oneOf, optional } from '../schema.ts';

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
export function speechStyleRefusal(
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

export function refuseInvalidSpeechInput(input: string): void {
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
export function refuseUnsupportedTimestamps(
  format: TranscriptFormat | null | undefined,
  granularities: readonly string[] | null | undefined,
): void {
  if (!granularities?.length || format === 'verbose_json') return;
  const message = 'timestamp_granularities needs the response_format verbose_json.';
  throw invalidRequest(message, 'timestamp_granularities');
}

/** Which audio a file holds, by its first bytes: names and declared types are only claims. */

/** As listed for transcriptions. Several names may stand for one kind of file. */
const extensions = ['flac', 'mp3', 'mpeg', 'mpga', 'mp4', 'm4a', 'ogg', 'wav', 'webm'];
const listed = extensions.join(', ');
/** What Telegram and WhatsApp call the Ogg files of their voice messages. */
const alsoOgg = ['oga', 'opus'];

/** Named like the extension of the object that keeps it. */
type AudioKind = 'flac' | 'mp3' | 'm4a' | 'mpeg' | 'ogg' | 'wav' | 'webm';

/** How many of a file's first bytes it takes to tell its kind. */
export const sniffBytes = 12;

function sniffAudio(start: Uint8Array): AudioKind | undefined {
  const text = Buffer.from(start.subarray(0, sniffBytes)).toString('latin1');
  if (text.startsWith('fLaC')) return 'flac';
  if (text.startsWith('OggS')) return 'ogg';
  if (text.startsWith('RIFF') && text.slice(8, 12) === 'WAVE') return 'wav';
  if (text.slice(4, 8) === 'ftyp') return 'm4a';
  if (text.startsWith('\x1a\x45\xdf\xa3')) return 'webm';
  // A film of MPEG's first two standards, as `.mpeg` files mostly are.
  if (text.startsWith('\0\0\x01\xba')) return 'mpeg';
  if (text.startsWith('ID3')) return 'mp3';
  // Eleven set bits, then a version and layer of MPEG audio: ADTS has the layer 0.
  const [a = 0, b = 0] = start;
  const isFrame = a === 0xff && (b & 0xe0) === 0xe0 && (b & 0x18) !== 0x08 && (b & 0x06) !== 0;
  return isFrame ? 'mp3' : undefined;
}

/** What a file is, by its first bytes. 400 */
export function readAudioKind(start: Uint8Array): AudioKind {
  if (start.length === 0) throw invalidRequest('file is empty.', 'file');
  const kind = sniffAudio(start);
  if (kind !== undefined) return kind;
  throw invalidRequest(`file is no audio that is known here; use one of ${listed}.`, 'file');
}

/**
 * The media type of speech. Some servers speak in one format whatever they are asked for, and
 * players believe what they are told; so the first bytes decide where they can be known.
 */
export function speechContentType(start: Uint8Array, requested: SpeechFormat): string {
  const kind = sniffAudio(start);
  // A quiet sample of PCM begins like a frame of MP3.
  return audioTypes[
    kind === undefined || (kind === 'mp3' && requested === 'pcm') ? requested : kind
  ];
}

/**
 * The extension of a client's file name, when it has one. Nothing else of the name is used: it is a
 * claim, and it leads nowhere. 400
 */
export function readExtension(filename: string): string | undefined {
  const extension = /\.([0-9A-Za-z]{1,10})$/.exec(filename)?.[1]?.toLowerCase();
  if (extension === undefined || extensions.includes(extension)) return extension;
  if (alsoOgg.includes(extension)) return 'ogg';
  throw invalidRequest(`file has the extension .${extension}; use one of ${listed}.`, 'file');
}
