import { audioTypes } from '../../core/media/audio-formats.ts';

/** The content types under which recordings are sent to providers. */
const contentTypes: Readonly<Record<string, string>> = { ...audioTypes, mp4: audioTypes.m4a };

/** The file name that providers see; the client's own is not passed on. */
export function nameAudio(extension: string): {
  readonly filename: string;
  readonly contentType: string;
} {
  const contentType = contentTypes[extension] ?? 'application/octet-stream';
  return { filename: `audio.${extension}`, contentType };
}
