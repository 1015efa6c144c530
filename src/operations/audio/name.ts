import { audioTypes } from '../../core/media/audio-formats.ts';

/** What providers are told that a recording is. */
const contentTypes: Readonly<Record<string, string>> = { ...audioTypes, mp4: audioTypes.m4a };

/** A client's own name of the file stays here. */
export function nameAudio(extension: string): {
  readonly filename: string;
  readonly contentType: string;
} {
  const contentType = contentTypes[extension] ?? 'application/octet-stream';
  return { filename: `audio.${extension}`, contentType };
}
