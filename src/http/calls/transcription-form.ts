import { formFieldsBytesMax, transcriptionBytesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import { addField, givenTwice, wantsFile, wantsText } from '../../core/form.ts';
import { readExtension, readKind, sniffBytes } from '../../core/media/audio-type.ts';
import type { Upload, UploadTray } from '../../core/upload.ts';
import { readTranscriptionRequest } from '../../dialects/openai/media/transcription-request.ts';
import { readSeconds } from '../../operations/audio/length.ts';
import { nameAudio } from '../../operations/audio/name.ts';
import type { SentAudio } from '../../operations/transcription.ts';
import { declaredLength, type Posted } from '../body/body.ts';
import { partTooLarge, readForm } from '../body/multipart.ts';

interface SentFile {
  readonly extension: string | undefined;
  readonly content: Upload;
}

const largerHint = '; POST /v1/jobs takes larger recordings';

/** Reads the form of a transcription; its file lies in the tray and has been checked. */
export async function readTranscription(posted: Posted, tray: UploadTray) {
  const declared = declaredLength(posted.request) ?? 0;
  if (declared > transcriptionBytesMax + formFieldsBytesMax) {
    throw partTooLarge('file', transcriptionBytesMax, largerHint);
  }
  const fields = new Map<string, string[]>();
  let file: SentFile | undefined;
  for await (const part of readForm(posted, transcriptionBytesMax, largerHint)) {
    if (part.kind === 'file') {
      if (part.name !== 'file') throw wantsText(part.name);
      const extension = readExtension(part.filename);
      if (file) throw givenTwice('file');
      file = { extension, content: await tray.keep(part.chunks) };
      continue;
    }
    if (part.name === 'file') throw wantsFile('file');
    addField(fields, part);
  }
  const request = readTranscriptionRequest(fields);
  if (!file) throw invalidRequest('file is required: a recording.', 'file');
  return { request, audio: await look(file) };
}

async function look({ extension, content }: SentFile): Promise<SentAudio> {
  const kind = readKind(await content.start(sniffBytes));
  const named = nameAudio(kind === 'm4a' && extension === 'mp4' ? 'mp4' : kind);
  const seconds = await readSeconds(content, named.contentType);
  return { ...named, content, sha256: content.sha256, seconds };
}
