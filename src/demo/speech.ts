/** POST /v1/audio/speech: the text as a melody, in a file that players open. */

import { countCharacters } from '../core/characters.ts';
import { invalidRequest } from '../core/errors.ts';
import { type Fields, isObject } from '../core/json.ts';
import { audioTypes } from '../core/media/audio-formats.ts';
import { composeMelody, mp3Note, pcmNote, wavHeader } from './melody.ts';
import { type Bytes, pause, type Reply, type ReplyStream, streamReply } from './reply.ts';
import {
  choiceField,
  delayField,
  numberField,
  readJsonBody,
  requiredTextField,
} from './request-fields.ts';

/** OpenAI's own limit. */
const inputCharactersMax = 4_096;

/** About a second of sound per chunk. */
const notesPerChunk = 4;

/** How a note is written in each format that the demo speaks. */
const noteIn = { mp3: mp3Note, wav: pcmNote, pcm: pcmNote } as const;
const otherFormats = ['opus', 'aac', 'flac'] as const;

export async function answerSpeech(request: Request): Promise<Reply> {
  const body = await readJsonBody(request);
  const input = requiredTextField(body, 'input');
  if (countCharacters(input) > inputCharactersMax) {
    throw invalidRequest(`'input' is longer than ${inputCharactersMax} characters.`, 'input');
  }
  const format = readFormat(body);
  const speed = numberField(body, 'speed', 0.25, 4) ?? 1;
  const melody = composeMelody(input, readVoice(body), speed);
  const header = format === 'wav' ? wavHeader(melody.length) : undefined;
  const notes = play(melody, noteIn[format], delayField(body), header);
  return streamReply(audioTypes[format], notes);
}

function readFormat(body: Fields): keyof typeof noteIn {
  choiceField(body, 'stream_format', ['audio']);
  const format =
    choiceField(body, 'response_format', ['mp3', 'wav', 'pcm', ...otherFormats]) ?? 'mp3';
  if (format === 'mp3' || format === 'wav' || format === 'pcm') return format;
  throw invalidRequest(
    `The demo speaks mp3, wav and pcm; '${format}' needs a real speech model.`,
    'response_format',
  );
}

/** Any voice is accepted and plays a melody of its own. Custom voices come as `{id}`. */
function readVoice(body: Fields): string {
  const voice = isObject(body.voice) ? body.voice.id : (body.voice ?? 'demo');
  if (typeof voice === 'string') return voice;
  throw invalidRequest("'voice' must be the name of a voice.", 'voice');
}

async function* play(
  melody: readonly number[],
  encodeNote: (note: number) => Bytes,
  delayMs: number,
  header: Bytes | undefined,
): ReplyStream {
  if (header !== undefined) yield header;
  for (let start = 0; start < melody.length; start += notesPerChunk) {
    await pause(delayMs);
    yield Buffer.concat(melody.slice(start, start + notesPerChunk).map(encodeNote));
  }
}
