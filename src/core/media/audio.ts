import { type Static, Type } from 'typebox';
import { type GatewayError, invalidRequest } from '../errors.ts';
import { oneOf, optional } from '../schema.ts';

/** Output formats of speech. */
export const speechFormats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const;
export type SpeechFormat = (typeof speechFormats)[number];

/** Media types of audio by file extension. */
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

/** Output formats of transcription. */
export const transcriptFormats = ['json', 'text', 'srt', 'verbose_json', 'vtt'] as const;
export type TranscriptFormat = (typeof transcriptFormats)[number];

/** File extensions of transcripts. */
export const transcriptExtensions = {
  json: 'json',
  verbose_json: 'json',
  text: 'txt',
  srt: 'srt',
  vtt: 'vtt',
} as const satisfies Record<TranscriptFormat, string>;

const voiceId = Type.String({ minLength: 1, maxLength: 200 });
const voice = Type.Union([voiceId, Type.Object({ id: voiceId })]);
/** The name of a voice. OpenAI's clients also send an object with its name or ID. */
export type Voice = Static<typeof voice>;

export function voiceName(voice: Voice): string {
  return typeof voice === 'string' ? voice : voice.id;
}

/** True for a voice that OpenAI made from a recording. It belongs to one account. */
export function isCustomVoice(voice: Voice): voice is Exclude<Voice, string> {
  return typeof voice === 'object' && voice.id.startsWith('voice_');
}

/** Request fields of speech, shared by direct requests and jobs. */
export const speechFields = {
  voice,
  response_format: optional(oneOf(...speechFormats)),
  /** The range is checked only for models with a declared speech style. */
  speed: optional(Type.Number()),
  instructions: optional(Type.String({ maxLength: 4_096 })),
};

/** The longest text of one call. */
export interface TextLimit {
  readonly unit: 'characters' | 'bytes';
  readonly max: number;
}

/** The allowed speed for models whose speed is checked. 1 is normal. */
const [slowest, fastest] = [0.25, 4];

/** Returns the error for a voice or speed that the model doesn't support, or null. */
export function speechStyleError(
  { voice, speed }: { readonly voice: Voice; readonly speed: number | null },
  voices: readonly string[] | null,
  model: string,
): GatewayError | null {
  if (voices && !voices.includes(voiceName(voice)) && !isCustomVoice(voice)) {
    return invalidRequest(`voice must be one of ${voices.join(', ')} for ${model}.`, 'voice');
  }
  if (speed === null || (speed >= slowest && speed <= fastest)) return null;
  const range = `from ${slowest} to ${fastest}`;
  return invalidRequest(`speed must be a number ${range}, not ${speed}.`, 'speed');
}

export function rejectInvalidSpeechInput(input: string): void {
  if (input.trim() === '') throw invalidRequest('input is empty.', 'input');
  if (input.isWellFormed()) return;
  throw invalidRequest('input contains an unpaired surrogate. Send valid Unicode.', 'input');
}

/** Request fields of transcription, shared by direct requests and jobs. */
export const transcriptFields = {
  language: optional(
    Type.String({ pattern: '^[a-z]{2,3}$', expected: 'an ISO-639-1 code such as "en"' }),
  ),
  prompt: optional(Type.String({ maxLength: 4_096 })),
  response_format: optional(oneOf(...transcriptFormats)),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  timestamp_granularities: optional(Type.Array(oneOf('word', 'segment'), { maxItems: 2 })),
};

/** Throws 400 for timestamps in a format other than verbose_json, the only format with them. */
export function rejectUnsupportedTimestamps(
  format: TranscriptFormat | null | undefined,
  granularities: readonly string[] | null | undefined,
): void {
  if (!granularities?.length || format === 'verbose_json') return;
  const message = 'timestamp_granularities requires response_format verbose_json.';
  throw invalidRequest(message, 'timestamp_granularities');
}

/** The documented extensions. Several can mean the same format. */
const extensions = ['flac', 'mp3', 'mpeg', 'mpga', 'mp4', 'm4a', 'ogg', 'wav', 'webm'];
const listed = extensions.join(', ');
/** Extensions of Ogg voice messages from Telegram and WhatsApp. */
const oggAliases = ['oga', 'opus'];

/**
 * Detected from a file's first bytes, because names and declared types can be wrong. Also the
 * extension of the stored object.
 */
type AudioKind = 'flac' | 'mp3' | 'm4a' | 'mpeg' | 'ogg' | 'wav' | 'webm';

/** The number of first bytes needed to detect the format. */
export const sniffBytes = 12;

function sniffAudio(start: Uint8Array): AudioKind | undefined {
  const text = Buffer.from(start.subarray(0, sniffBytes)).toString('latin1');
  if (text.startsWith('fLaC')) return 'flac';
  if (text.startsWith('OggS')) return 'ogg';
  if (text.startsWith('RIFF') && text.slice(8, 12) === 'WAVE') return 'wav';
  if (text.slice(4, 8) === 'ftyp') return 'm4a';
  if (text.startsWith('\x1a\x45\xdf\xa3')) return 'webm';
  // MPEG-1 or MPEG-2 video, which most `.mpeg` files are.
  if (text.startsWith('\0\0\x01\xba')) return 'mpeg';
  if (text.startsWith('ID3')) return 'mp3';
  // 11 set bits, then the version and layer of MPEG audio. ADTS has layer 0.
  const [a = 0, b = 0] = start;
  const isFrame = a === 0xff && (b & 0xe0) === 0xe0 && (b & 0x18) !== 0x08 && (b & 0x06) !== 0;
  return isFrame ? 'mp3' : undefined;
}

/** Detects an audio file's format from its first bytes. Throws 400. */
export function readAudioKind(start: Uint8Array): AudioKind {
  if (start.length === 0) throw invalidRequest('file is empty.', 'file');
  const kind = sniffAudio(start);
  if (kind !== undefined) return kind;
  throw invalidRequest(`file isn't a supported audio format; use one of ${listed}.`, 'file');
}

/**
 * Returns the media type of generated speech. Some servers ignore the requested format, and players
 * trust the header. If the first bytes are recognized, they therefore determine the type.
 */
export function speechContentType(start: Uint8Array, requested: SpeechFormat): string {
  const kind = sniffAudio(start);
  // Quiet PCM samples look like an MP3 frame.
  return audioTypes[
    kind === undefined || (kind === 'mp3' && requested === 'pcm') ? requested : kind
  ];
}

/**
 * Returns the extension of a client's file name, if any. The rest of the name is never used. Throws
 * 400.
 */
export function readExtension(filename: string): string | undefined {
  const extension = /\.([0-9A-Za-z]{1,10})$/.exec(filename)?.[1]?.toLowerCase();
  if (extension === undefined || extensions.includes(extension)) return extension;
  if (oggAliases.includes(extension)) return 'ogg';
  throw invalidRequest(`file has the extension .${extension}; use one of ${listed}.`, 'file');
}
