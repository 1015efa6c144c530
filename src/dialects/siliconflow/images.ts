/** Images of SiliconFlow: edits, too, go to the endpoint that makes images from words. */
import { inBase64, joined, type Piece } from '../long-body.ts';
import type { ImagesDialect } from '../media/images.ts';
import { type ImageFile, shownMask } from '../media/images-wish.ts';
import { spell } from '../media/spell.ts';
import { readImages } from '../openai/media/images.ts';
import { namesGiven } from '../parameters.ts';
import { readAnswer } from '../read-answer.ts';

const path = '/images/generations';

/** The fields for the image and its mask; some of SiliconFlow's models name them differently. */
const imageFields = ['image', 'image2'];

export const siliconFlowImages: ImagesDialect = {
  mask: 'image',
  imagesMax: 1,
  write(wish, target) {
    const { upstreamModel, quirks } = target;
    const { prompt, images } = shownMask(wish);
    const { parameters, more } = wish;
    const isEdit = images.length > 0;
    const size = isEdit || parameters.size === 'auto' ? null : parameters.size;
    const taken = Object.fromEntries(imageFields.slice(0, images.length).map((n) => [n, null]));
    const { fields } = spell({ ...more, ...taken, image_size: size }, target);
    const said = new Set([...Object.keys(fields), ...(size === null ? [] : ['size'])]);
    const dropped = namesGiven({ ...parameters, ...more }).filter((name) => !said.has(name));
    const start = JSON.stringify({ model: upstreamModel, prompt, ...fields });
    if (!isEdit) return { path, body: start, dropped };
    const placed = images.flatMap((image, at) => {
      const field = imageFields[at] ?? '';
      return inlined(quirks.rename_params?.[field] ?? field, image);
    });
    return { path, body: joined([start.slice(0, -1), ...placed, '}']), dropped };
  },
  read: (text) => readAnswer(text, readImages),
};

function inlined(field: string, { mediaType, content }: ImageFile): readonly Piece[] {
  return [`,${JSON.stringify(field)}:"data:${mediaType};base64,`, inBase64(content), '"'];
}
