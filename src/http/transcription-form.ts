import { formFieldBytesMax, transcriptionBytesMax } from '../core/bounds.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import type { FormFile } from '../core/form.ts';
import type { Upload, UploadTray } from '../core/upload.ts';
import {
  readTranscriptionRequest,
  type TranscriptionRequest,
} from '../dialects/openai/transcription-request.ts';
import { audioExtensions, extensionOf, sniffAudio, sniffBytes } from '../jobs/audio-type.ts';
import { readSeconds } from '../operations/audio/length.ts';
import { nameAudio } from '../operations/audio/name.ts';
import type { SentAudio } from '../operations/transcription.ts';
import type { Exchange } from './exchange.ts';
import { readForm } from './multipart.ts';

export interface SentTranscription {
  readonly request: TranscriptionRequest;
  readonly audio: SentAudio;
}

interface SentFile {
  readonly extension: string | undefined;
  readonly content: Upload;
}

/** Reads the form of a transcription; its file lies in the tray, looked at and found sound. */
export async function readTranscription(
  exchange: Exchange,
  tray: UploadTray,
): Promise<SentTranscription> {
  const { request } = exchange;
  const declared = Number(request.headers.get('content-length') ?? 0);
  if (declared > transcriptionBytesMax + formFieldBytesMax) throw tooLarge();
  const fields = new Map<string, string[]>();
  let file: SentFile | undefined;
  for await (const part of readForm(request, { fileBytesMax: transcriptionBytesMax })) {
    if (part.kind === 'file') {
      const extension = readExtension(part);
      if (file) throw invalidRequest('file is given twice.', 'file');
      file = { extension, content: await tray.keep(part.chunks) };
      continue;
    }
    if (part.name === 'file') throw invalidRequest('file must be a file, not a text.', 'file');
    if (part.name === 'model') exchange.modelNamed = part.value;
    fields.set(part.name, [...(fields.get(part.name) ?? []), part.value]);
  }
  const wanted = readTranscriptionRequest(fields);
  if (!file) throw invalidRequest('file is required: a recording.', 'file');
  return { request: wanted, audio: await look(file) };
}

const listed = audioExtensions.join(', ');

/** The name is a claim: nothing but its extension is read, and it leads nowhere. */
function readExtension({ name, filename }: FormFile): string | undefined {
  if (name !== 'file') throw invalidRequest(`${name} must be a text, not a file.`, name);
  const extension = extensionOf(filename);
  if (extension === undefined || audioExtensions.includes(extension)) return extension;
  throw invalidRequest(`file has the extension .${extension}; use one of ${listed}.`, 'file');
}

async function look({ extension, content }: SentFile): Promise<SentAudio> {
  if (content.bytes === 0) throw invalidRequest('file is empty.', 'file');
  const kind = sniffAudio(await content.start(sniffBytes));
  if (kind === undefined) {
    throw invalidRequest(`file is no audio that is known here; use one of ${listed}.`, 'file');
  }
  const named = nameAudio(kind === 'm4a' && extension === 'mp4' ? 'mp4' : kind);
  const seconds = await readSeconds(content, named.contentType);
  return { ...named, content, sha256: content.sha256, seconds };
}

function tooLarge(): GatewayError {
  const message = `file is larger than the ${transcriptionBytesMax} bytes allowed here.`;
  return new GatewayError('invalid_request_error', message, { status: 413, param: 'file' });
}
