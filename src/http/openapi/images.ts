import { Type } from 'typebox';
import { editImagesMax, imageEditBytesMax } from '../../core/bounds.ts';
import { imagesSchema } from '../../dialects/openai/media/images-request.ts';
import { count, file, form, megabytes, named, type RouteDoc, text } from './doc.ts';

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
