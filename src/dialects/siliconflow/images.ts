/** Images of SiliconFlow: edits too go to the place where pictures are made from words. */
import type { ImagesDialect } from '../images.ts';
import { namesOf } from '../images-wish.ts';
import { inBase64, joined } from '../long-body.ts';
import { readImages } from '../openai/images.ts';
import { readAnswer } from '../read-answer.ts';
import { spell } from '../spell.ts';

const path = '/images/generations';

export const siliconFlowImages: ImagesDialect = {
  mask: 'none',
  imagesMax: 1,
  write(wish, { upstreamModel, quirks }) {
    const { prompt, images, parameters, more } = wish;
    const [image] = images;
    const size = image || parameters.size === 'auto' ? null : parameters.size;
    const { fields } = spell<unknown>({ ...more, image_size: size }, quirks);
    const said = new Set([...Object.keys(fields), ...(size === null ? [] : ['size'])]);
    const dropped = namesOf(wish).filter((name) => !said.has(name));
    const all = { model: upstreamModel, prompt, ...fields };
    if (!image) return { path, headers: {}, body: JSON.stringify(all), dropped };
    // Some of its models have another name for the field.
    const name = quirks.rename_params?.image ?? 'image';
    const body = joined([
      `${JSON.stringify(all).slice(0, -1)},${JSON.stringify(name)}:`,
      `"data:${image.mediaType};base64,`,
      inBase64(image.content),
      '"}',
    ]);
    return { path, headers: {}, body, dropped };
  },
  read: (text) => readAnswer(text, readImages),
};
