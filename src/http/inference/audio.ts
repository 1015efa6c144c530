import type { Answer } from '../../call.ts';
import { audioDocs } from '../../contract/media.ts';
import { formFieldsBytesMax, transcriptionBytesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import {
  addField,
  duplicateField,
  mustBeFile,
  mustBeText,
  type Upload,
  type UploadDirectory,
} from '../../core/form.ts';
import {
  readAudioKind,
  readExtension,
  type SpeechFormat,
  sniffBytes,
  speechContentType,
  type TranscriptFormat,
  transcriptExtensions,
} from '../../core/media/audio.ts';
import { contentTypeOf } from '../../core/stored-object.ts';
import { readSpeechRequest, type SpeechRequest } from '../../dialects/openai-media/speech.ts';
import { readTranscriptionRequest } from '../../dialects/openai-media/transcription.ts';
import { decodeRecordedAudio } from '../../operations/speech/delivered-audio.ts';
import { SpeechOperation } from '../../operations/speech/speech-operation.ts';
import { audioFileFor, readDurationSeconds } from '../../operations/transcription/audio-file.ts';
import {
  TranscriptionOperation,
  type UploadedAudio,
} from '../../operations/transcription/transcription-operation.ts';
import { declaredLength, type IncomingRequest, readJson } from '../body/body.ts';
import { partTooLarge, readForm } from '../body/multipart.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';
import { callModel, callModelWithFiles, respond, type UploadCallDeps } from './model-call.ts';

const routing = routesFor({ access: 'routing', scope: 'audio' });

export async function readSpeech(
  incoming: IncomingRequest,
  { bodyBytesMax }: Pick<UploadCallDeps, 'bodyBytesMax'>,
): Promise<SpeechRequest> {
  const { value } = await readJson(incoming, bodyBytesMax);
  return readSpeechRequest(value);
}

export function audioRoutes(deps: UploadCallDeps): Route[] {
  return [
    routing.post('/v1/audio/speech', audioDocs.speak, (exchange, caller) => {
      let format: SpeechFormat = 'mp3';
      const read = async (incoming: IncomingRequest) => {
        const request = await readSpeech(incoming, deps);
        format = request.format;
        return new SpeechOperation(request);
      };
      // New audio is `bytes`; a `reply` is a recording of earlier audio, in base64.
      const toResponse = (target: Exchange, result: Answer) =>
        result.kind === 'reply'
          ? replaySpeech(target, result.body, format)
          : respond(target, result);
      return callModel(exchange, caller, 'speech', read, deps, toResponse);
    }),
    routing.post('/v1/audio/transcriptions', audioDocs.transcribe, async (exchange, caller) => {
      let format: TranscriptFormat = 'json';
      const read = async (incoming: IncomingRequest, uploads: UploadDirectory) => {
        const { request, audio } = await readTranscription(incoming, uploads);
        format = request.options.format;
        return new TranscriptionOperation(request, audio);
      };
      const response = await callModelWithFiles(exchange, caller, 'transcription', read, deps);
      const file = `transcript.${transcriptExtensions[format]}`;
      response.headers.set('content-type', contentTypeOf(file));
      return response;
    }),
  ];
}

function replaySpeech(exchange: Exchange, recording: string, format: SpeechFormat): Response {
  const audio = decodeRecordedAudio(recording);
  exchange.responseLength = audio.length;
  exchange.headers['content-type'] = speechContentType(audio, format);
  return new Response(audio, { headers: exchange.headers });
}

interface SentFile {
  readonly extension: string | undefined;
  readonly content: Upload;
}

const largerHint = '; send larger recordings to POST /v1/jobs';

/** Reads the form of a transcription. Stores the audio file and validates it. */
async function readTranscription(incoming: IncomingRequest, uploads: UploadDirectory) {
  const declared = declaredLength(incoming.request) ?? 0;
  if (declared > transcriptionBytesMax + formFieldsBytesMax) {
    throw partTooLarge('file', transcriptionBytesMax, largerHint);
  }
  const fields = new Map<string, string[]>();
  let file: SentFile | undefined;
  for await (const part of readForm(incoming, transcriptionBytesMax, largerHint)) {
    if (part.kind === 'file') {
      if (part.name !== 'file') throw mustBeText(part.name);
      const extension = readExtension(part.filename);
      if (file) throw duplicateField('file');
      file = { extension, content: await uploads.store(part.chunks) };
      continue;
    }
    if (part.name === 'file') throw mustBeFile('file');
    addField(fields, part);
  }
  const request = readTranscriptionRequest(fields);
  if (!file) throw invalidRequest('file is required. Send an audio recording.', 'file');
  return { request, audio: await inspectAudio(file) };
}

async function inspectAudio({ extension, content }: SentFile): Promise<UploadedAudio> {
  const kind = readAudioKind(await content.start(sniffBytes));
  const audioFormat = audioFileFor(kind === 'm4a' && extension === 'mp4' ? 'mp4' : kind);
  const seconds = await readDurationSeconds(content, audioFormat.contentType);
  return { ...audioFormat, content, sha256: content.sha256, seconds };
}
