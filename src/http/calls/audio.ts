import type { Answer } from '../../call.ts';
import {
  type SpeechFormat,
  type TranscriptFormat,
  transcriptExtensions,
} from '../../core/media/audio-formats.ts';
import { spokenType } from '../../core/media/audio-type.ts';
import { contentTypeOf } from '../../core/object-key.ts';
import type { UploadTray } from '../../core/upload.ts';
import { readSpeechRequest } from '../../dialects/openai/media/speech-request.ts';
import { audioIn } from '../../operations/audio/spoken-again.ts';
import { SpeechErrand } from '../../operations/speech.ts';
import { TranscriptionErrand } from '../../operations/transcription.ts';
import { type Posted, readJson } from '../body/body.ts';
import type { Exchange } from '../exchange.ts';
import { audioDocs } from '../openapi/audio.ts';
import { type Route, routesFor } from '../routes.ts';
import { callModel, callModelWithFiles, respond, type UploadCallParts } from './model-call.ts';
import { readTranscription } from './transcription-form.ts';

const routing = routesFor({ access: 'routing', scope: 'audio' });

export function audioRoutes(parts: UploadCallParts): Route[] {
  return [
    routing.post('/v1/audio/speech', audioDocs.speak, (exchange, caller) => {
      let format: SpeechFormat = 'mp3';
      const read = async (posted: Posted) => {
        const { value } = await readJson(posted, parts.bodyBytesMax);
        const request = readSpeechRequest(value);
        format = request.format;
        return new SpeechErrand(request);
      };
      // New audio comes as bytes; a text is a recording that is given again.
      const tell = (to: Exchange, answered: Answer) =>
        typeof answered === 'string' ? heardAgain(to, answered, format) : respond(to, answered);
      return callModel(exchange, caller, 'speech', read, parts, tell);
    }),
    routing.post('/v1/audio/transcriptions', audioDocs.transcribe, async (exchange, caller) => {
      let format: TranscriptFormat = 'json';
      const read = async (posted: Posted, tray: UploadTray) => {
        const { request, audio } = await readTranscription(posted, tray);
        format = request.wish.format;
        return new TranscriptionErrand(request, audio);
      };
      const response = await callModelWithFiles(exchange, caller, 'transcription', read, parts);
      const file = `transcript.${transcriptExtensions[format]}`;
      response.headers.set('content-type', contentTypeOf(file));
      return response;
    }),
  ];
}

function heardAgain(exchange: Exchange, recorded: string, format: SpeechFormat): Response {
  const audio = audioIn(recorded);
  exchange.answerLength = audio.length;
  exchange.headers['content-type'] = spokenType(audio, format);
  return new Response(audio, { headers: exchange.headers });
}
