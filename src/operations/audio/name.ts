/** What providers are told that a recording is. */
const contentTypes: Readonly<Record<string, string>> = {
  flac: 'audio/flac',
  mp3: 'audio/mpeg',
  mp4: 'audio/mp4',
  m4a: 'audio/mp4',
  ogg: 'audio/ogg',
  wav: 'audio/wav',
  webm: 'audio/webm',
};

/** A client's own name of the file stays here. */
export function nameAudio(extension: string): {
  readonly filename: string;
  readonly contentType: string;
} {
  const contentType = contentTypes[extension] ?? 'application/octet-stream';
  return { filename: `audio.${extension}`, contentType };
}
