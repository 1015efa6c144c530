import { invalidRequest } from '../errors.ts';
import { audioTypes, type SpeechFormat } from './audio-formats.ts';

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
export function readKind(start: Uint8Array): AudioKind {
  if (start.length === 0) throw invalidRequest('file is empty.', 'file');
  const kind = sniffAudio(start);
  if (kind !== undefined) return kind;
  throw invalidRequest(`file is no audio that is known here; use one of ${listed}.`, 'file');
}

/**
 * The media type of speech. Some servers speak in one format whatever they are asked for, and
 * players believe what they are told; so the first bytes decide where they can be known.
 */
export function spokenType(start: Uint8Array, asked: SpeechFormat): string {
  const kind = sniffAudio(start);
  // A quiet sample of PCM begins like a frame of MP3.
  return audioTypes[kind === undefined || (kind === 'mp3' && asked === 'pcm') ? asked : kind];
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
