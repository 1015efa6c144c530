import { Type } from 'typebox';
import { transcriptionBytesMax } from '../../core/bounds.ts';
import { audioTypes, speechFormats } from '../../core/media/audio-formats.ts';
import { optional } from '../../core/schema-builders.ts';
import { speechSchema } from '../../dialects/openai/media/speech-request.ts';
import { transcriptionSchema } from '../../dialects/openai/media/transcription-request.ts';
import { file, form, megabytes, named, type RouteDoc, text } from './doc.ts';

const { stream: _stream, ...fields } = transcriptionSchema.properties;

/** Providers may say more than this, so these records stay open. */

const times = { start: Type.Number({ description: 'Seconds.' }), end: Type.Number() };
const segment = Type.Object({ ...times, text: text() }, { title: 'TranscriptSegment' });
const word = Type.Object({ ...times, word: text() }, { title: 'TranscriptWord' });

const transcript = Type.Object(
  {
    text: text('What was said.'),
    duration: Type.Optional(
      Type.Number({ description: 'Seconds of audio, if the provider tells; they are charged.' }),
    ),
    task: Type.Optional(text('With `verbose_json`.')),
    language: Type.Optional(text('With `verbose_json`.')),
    segments: optional(Type.Array(segment, { description: 'With `verbose_json`.' })),
    words: optional(Type.Array(word, { description: 'With `verbose_json`.' })),
    usage: Type.Optional(Type.Object({ type: text('What is counted: `duration` or `tokens`.') })),
  },
  { title: 'Transcript' },
);

export const audioDocs = {
  speak: {
    summary: 'Speak a text',
    details:
      'The audio comes as it is made. Texts of up to 4096 characters, with some providers 1000 ' +
      'bytes; POST /v1/jobs takes longer ones.',
    body: named('SpeechRequest', speechSchema),
    example: { model: 'demo/speech', input: 'Good morning!', voice: 'alloy' },
    answers: {
      200: {
        types: Object.fromEntries(speechFormats.map((format) => [audioTypes[format], file()])),
      },
    },
  },
  transcribe: {
    summary: 'Write down a recording',
    details:
      `A file of up to ${megabytes(transcriptionBytesMax)}: flac, mp3, mp4, mpeg, mpga, m4a, ` +
      'ogg, wav or webm. Its first bytes decide what it is.',
    body: { types: form('TranscriptionRequest', { ...fields, file: file() }) },
    example: { model: 'demo/transcribe', file: '(the file)' },
    answers: {
      200: {
        types: {
          'application/json': transcript,
          'text/plain': text('With `text` and `srt`.'),
          'text/vtt': text('With `vtt`.'),
        },
      },
    },
  },
} satisfies Record<string, RouteDoc>;
