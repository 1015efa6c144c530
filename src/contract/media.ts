import { Type } from 'typebox';
import { editImagesMax, imageEditBytesMax, transcriptionBytesMax } from '../core/bounds.ts';
import { audioTypes, speechFormats } from '../core/media/audio.ts';
import { optional } from '../core/schema.ts';
import { embeddingsSchema } from '../dialects/openai-media/embeddings.ts';
import { imagesSchema } from '../dialects/openai-media/images.ts';
import { speechSchema } from '../dialects/openai-media/speech.ts';
import { transcriptionSchema } from '../dialects/openai-media/transcription.ts';
import { count, file, form, megabytes, named, type RouteDoc, text } from './route-doc.ts';

const embeddings = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        object: Type.Literal('embedding'),
        index: count('The place of its input.'),
        embedding: Type.Union([
          Type.Array(Type.Number()),
          text('Little-endian 32-bit floats in base64.'),
        ]),
      }),
    ),
    model: text('The alias that answered.'),
    usage: Type.Object({ prompt_tokens: count(), total_tokens: count() }),
  },
  { title: 'Embeddings' },
);

export const embeddingsDocs = {
  create: {
    summary: 'Turn texts into vectors',
    details: 'As at OpenAI: one text, up to 2048 of them, or the numbers of their tokens.',
    body: named('EmbeddingsRequest', embeddingsSchema),
    example: { model: 'demo/embed', input: ['Hello!', 'Good morning!'] },
    answers: { 200: embeddings },
  },
} satisfies Record<string, RouteDoc>;

const tokenKinds = Type.Object({
  text_tokens: Type.Optional(count()),
  image_tokens: Type.Optional(count()),
});

const images = Type.Object(
  {
    created: count('Unix seconds.'),
    model: text('The alias that answered.'),
    data: Type.Array(
      Type.Object({
        b64_json: Type.Optional(text('The picture in base64; a PNG unless asked otherwise.')),
        url: Type.Optional(text('Where the picture is, if its bytes could not be fetched.')),
        revised_prompt: Type.Optional(text()),
      }),
    ),
    size: Type.Optional(text()),
    quality: Type.Optional(text()),
    background: Type.Optional(text()),
    output_format: Type.Optional(text('What the bytes are: `png`, `jpeg` or `webp`.')),
    usage: Type.Object({
      prompt_tokens: count(),
      completion_tokens: count(),
      total_tokens: count(),
      input_tokens: count('The same as `prompt_tokens`, for OpenAI’s libraries.'),
      output_tokens: count('The same as `completion_tokens`.'),
      input_tokens_details: Type.Optional(tokenKinds),
      output_tokens_details: Type.Optional(tokenKinds),
    }),
  },
  { title: 'Images' },
);

export const imagesDocs = {
  edit: {
    summary: 'Edit an image',
    details:
      'In a mask, opaque pixels mark what is edited and transparent ones what is kept. Only one ' +
      `image is made; the body may have ${megabytes(imageEditBytesMax)}, and five minutes are ` +
      'waited for each attempt.',
    body: {
      types: form('ImageEditRequest', {
        ...imagesSchema.properties,
        image: file(`PNG, JPEG or WebP; as \`image[]\` up to ${editImagesMax} of them.`),
        mask: Type.Optional(file('A PNG with an alpha channel, as large as the first image.')),
      }),
    },
    example: { model: 'demo/image', prompt: 'Make it green.', image: '(the file)' },
    answers: { 200: images },
  },
  generate: {
    summary: 'Make an image from words',
    body: named('ImageRequest', imagesSchema),
    example: { model: 'demo/image', prompt: 'A lighthouse at dusk.' },
    answers: { 200: images },
  },
} satisfies Record<string, RouteDoc>;

const { stream: _stream, ...transcriptionFields } = transcriptionSchema.properties;

/** Providers may say more than this, so these records stay open. */

const timing = { start: Type.Number({ description: 'Seconds.' }), end: Type.Number() };
const segment = Type.Object({ ...timing, text: text() }, { title: 'TranscriptSegment' });
const word = Type.Object({ ...timing, word: text() }, { title: 'TranscriptWord' });

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
    body: { types: form('TranscriptionRequest', { ...transcriptionFields, file: file() }) },
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
