/** Which audio a file holds, by its first bytes: names and declared types are only claims. */

/** As listed for transcriptions. Several names may stand for one kind of file. */
const kinds: Readonly<Record<string, AudioKind>> = {
  flac: 'flac',
  mp3: 'mp3',
  mpeg: 'mp3',
  mpga: 'mp3',
  mp4: 'm4a',
  m4a: 'm4a',
  ogg: 'ogg',
  wav: 'wav',
  webm: 'webm',
};

/** Named like the extension of the object that keeps it. */
export type AudioKind = 'flac' | 'mp3' | 'm4a' | 'ogg' | 'wav' | 'webm';

export const audioExtensions: readonly string[] = Object.keys(kinds);

/** So many first bytes decide. */
export const sniffBytes = 12;

export function sniffAudio(start: Uint8Array): AudioKind | undefined {
  const text = Buffer.from(start.subarray(0, sniffBytes)).toString('latin1');
  if (text.startsWith('fLaC')) return 'flac';
  if (text.startsWith('OggS')) return 'ogg';
  if (text.startsWith('RIFF') && text.slice(8, 12) === 'WAVE') return 'wav';
  if (text.slice(4, 8) === 'ftyp') return 'm4a';
  if (text.startsWith('\x1a\x45\xdf\xa3')) return 'webm';
  if (text.startsWith('ID3')) return 'mp3';
  // Eleven set bits, then a version and layer of MPEG audio: ADTS has the layer 0.
  const [a = 0, b = 0] = start;
  const isFrame = a === 0xff && (b & 0xe0) === 0xe0 && (b & 0x18) !== 0x08 && (b & 0x06) !== 0;
  return isFrame ? 'mp3' : undefined;
}

/** The extension of a client's file name, when it has one. Nothing else of the name is used. */
export function extensionOf(filename: string): string | undefined {
  return /\.([0-9A-Za-z]{1,10})$/.exec(filename)?.[1]?.toLowerCase();
}
