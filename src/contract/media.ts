import { Type } from 'typebox';
import { editImagesMax, imageEditBytesMax, transcriptionBytesMax } from '../core/bounds.ts';
import { audioTypes, speechFormats } from '../core/media/audio.ts';
import { optional } from '../core/schema.ts';
import { embeddingsSchema } from '../dialects/openai-media/embeddings.ts';
import { editSchema, imagesSchema } from '../dialects/openai-media/images.ts';
import { speechSchema } from '../dialects/openai-media/speech.ts';
import { transcriptionSchema } from '../dialects/openai-media/transcription.ts';
import { count, file, form, mebibytes, named, text } from './fields.ts';
import { withFields, withModel } from './request-rules.ts';
import type { RouteDoc } from './route-doc.ts';

// Embeddings, images, and audio. Responses may have more fields than these, because providers add
// their own.

const embeddings = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        object: Type.Literal('embedding'),
        index: count('The index of its input.'),
        embedding: Type.Union([
          Type.Array(Type.Number()),
          text('Little-endian 32-bit floats, in base64.'),
        ]),
      }),
    ),
    model: text('The alias of the model that answered.'),
    usage: Type.Object({ prompt_tokens: count(), total_tokens: count() }),
  },
  { title: 'Embeddings' },
);

export const embeddingsDocs = {
  create: {
    summary: 'Create embeddings',
    details: 'Compatible with OpenAI. The input is a string, up to 2,048 strings, or token IDs.',
    body: named('EmbeddingsRequest', withModel(embeddingsSchema)),
    example: { model: 'demo/embed', input: ['Hello!', 'Good morning!'] },
    responses: { 200: embeddings },
  },
} satisfies Record<string, RouteDoc>;

const tokenKinds = Type.Object({
  text_tokens: Type.Optional(count()),
  image_tokens: Type.Optional(count()),
});

const images = Type.Object(
  {
    created: count('Unix seconds.'),
    model: text('The alias of the model that answered.'),
    data: Type.Array(
      Type.Object({
        b64_json: Type.Optional(text('The image in base64; PNG by default.')),
        url: Type.Optional(text("The URL of the image, if the gateway couldn't download it.")),
        revised_prompt: Type.Optional(text()),
      }),
    ),
    size: Type.Optional(text()),
    quality: Type.Optional(text()),
    background: Type.Optional(text()),
    output_format: Type.Optional(text('`png`, `jpeg`, or `webp`.')),
    usage: Type.Object({
      prompt_tokens: count(),
      completion_tokens: count(),
      total_tokens: count(),
      input_tokens: count("The same as `prompt_tokens`, for OpenAI's SDKs."),
      output_tokens: count('The same as `completion_tokens`.'),
      input_tokens_details: Type.Optional(tokenKinds),
      output_tokens_details: Type.Optional(tokenKinds),
    }),
  },
  { title: 'Images' },
);

/** Code rejects several images and streams, because its messages say what to do instead. */
const oneImage = withFields(imagesSchema, {
  n: optional(Type.Literal(1)),
  stream: optional(Type.Literal(false)),
});

export const imagesDocs = {
  edit: {
    summary: 'Edit an image',
    details:
      'Opaque pixels of the mask are edited; transparent pixels are preserved. With `mask_edits` ' +
      "set to `transparent`, it is the reverse, as in OpenAI's API. The response has " +
      `1 image. The body may be up to ${mebibytes(imageEditBytesMax)}, and each attempt may ` +
      'take 5 minutes.',
    body: {
      types: form('ImageEditRequest', {
        ...oneImage.properties,
        ...editSchema.properties,
        image: file(`PNG, JPEG, or WebP. Send up to ${editImagesMax} files as \`image[]\`.`),
        mask: Type.Optional(file('A PNG with an alpha channel, the same size as the first image.')),
      }),
    },
    example: { model: 'demo/image', prompt: 'Make it green.', image: '(the file)' },
    responses: { 200: images },
  },
  generate: {
    summary: 'Generate an image',
    body: named('ImageRequest', withModel(oneImage)),
    example: { model: 'demo/image', prompt: 'A lighthouse at dusk.' },
    responses: { 200: images },
  },
} satisfies Record<string, RouteDoc>;

const { stream: _stream, ...transcriptionFields } = transcriptionSchema.properties;

const timing = { start: Type.Number({ description: 'Seconds.' }), end: Type.Number() };
const segment = Type.Object({ ...timing, text: text() }, { title: 'TranscriptSegment' });
const word = Type.Object({ ...timing, word: text() }, { title: 'TranscriptWord' });

const transcript = Type.Object(
  {
    text: text('The transcript.'),
    duration: Type.Optional(
      Type.Number({
        description:
          'Duration of the audio in seconds, if the provider reports it. Charges are based on it.',
      }),
    ),
    task: Type.Optional(text('With `verbose_json`.')),
    language: Type.Optional(text('With `verbose_json`.')),
    segments: optional(Type.Array(segment, { description: 'With `verbose_json`.' })),
    words: optional(Type.Array(word, { description: 'With `verbose_json`.' })),
    usage: Type.Optional(Type.Object({ type: text('The unit: `duration` or `tokens`.') })),
  },
  { title: 'Transcript' },
);

const speechAsAudio = withFields(speechSchema, { stream_format: optional(Type.Literal('audio')) });

export const audioDocs = {
  speak: {
    summary: 'Create speech',
    details:
      'The audio is streamed as it is generated. The text may have up to 4,096 characters, or ' +
      '1,000 bytes with some providers. Send longer text to POST /v1/jobs.',
    body: named('SpeechRequest', withModel(speechAsAudio)),
    example: { model: 'demo/speech', input: 'Good morning!', voice: 'alloy' },
    responses: {
      200: {
        types: Object.fromEntries(speechFormats.map((format) => [audioTypes[format], file()])),
      },
    },
  },
  transcribe: {
    summary: 'Create a transcription',
    details:
      `A file of up to ${mebibytes(transcriptionBytesMax)}: flac, mp3, mp4, mpeg, mpga, m4a, ` +
      'ogg, wav, or webm. The format is detected from the first bytes.',
    body: { types: form('TranscriptionRequest', { ...transcriptionFields, file: file() }) },
    example: { model: 'demo/transcribe', file: '(the file)' },
    responses: {
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
