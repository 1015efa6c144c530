/** Requests for images in OpenAI's words, as clients send them. */
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Ask } from '../../../core/ask.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { misfit } from '../../../core/misfit.ts';
import { oneOf, optional } from '../../../core/schema-builders.ts';
import { asGoReads, otherFields } from '../../ask/body/unknown-fields.ts';
import { label, routingFields, wholeAsk } from '../../ask/routing.ts';
import type { ImageParameters } from '../../media/images-wish.ts';

/** Models take some 30,000 characters; this only bounds what is held in memory. */
const promptLengthMax = 500_000;

export const imagesSchema = Type.Object({
  ...routingFields,
  prompt: Type.String({ minLength: 1, maxLength: promptLengthMax }),
  size: optional(
    Type.String({
      pattern: '^(?:auto|[1-9]\\d{1,4}x[1-9]\\d{1,4})$',
      expected: '"auto" or WIDTHxHEIGHT in pixels, such as "1024x1024"',
    }),
  ),
  quality: optional(oneOf('low', 'medium', 'high', 'auto')),
  n: optional(Type.Integer({ minimum: 1 })),
  background: optional(oneOf('transparent', 'opaque', 'auto')),
  output_format: optional(oneOf('png', 'jpeg', 'webp')),
  /** Every image is answered as `b64_json`; some clients ask for that anyway. */
  response_format: optional(oneOf('b64_json')),
  stream: optional(Type.Boolean()),
  user: label,
});
const validator = Compile(imagesSchema);

export interface ImagesRequest {
  readonly ask: Ask;
  readonly prompt: string;
  readonly parameters: ImageParameters;
  readonly more: Readonly<Record<string, unknown>>;
}

/** The fields by which vendors are told how many images to make; each image is charged for. */
const counts = ['n', 'batch_size', 'num_images', 'num_images_per_prompt', 'num_outputs', 'samples'];

function refuseSeveral(body: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(body)) {
    // `Number`, because forms send only texts.
    if (!counts.includes(asGoReads(name)) || !(Number(value ?? 1) > 1)) continue;
    const found = `${name} is ${JSON.stringify(value)}`;
    throw invalidRequest(`${found}, and only one image can be made per request.`, name);
  }
}

export function readImagesRequest(value: Record<string, unknown>): ImagesRequest {
  if (!validator.Check(value)) throw misfit(imagesSchema, value);
  const { stream, user } = value;
  refuseSeveral(value);
  if (stream) {
    throw invalidRequest('stream must be left out: images are answered whole.', 'stream');
  }
  const more = otherFields(value, imagesSchema.properties);
  return {
    ask: wholeAsk('images', value, more),
    prompt: value.prompt,
    parameters: {
      size: value.size ?? null,
      quality: value.quality ?? null,
      background: value.background ?? null,
      output_format: value.output_format ?? null,
      user: user ?? null,
    },
    more,
  };
}
