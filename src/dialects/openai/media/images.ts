/** Images of an OpenAI-style upstream. */
import { editImagesMax } from '../../../core/bounds.ts';
import { type Fields, fieldsOf, isObject, itemsOf, textOf } from '../../../core/json.ts';
import { readCount } from '../../answer/counts.ts';
import type { UpstreamFailure } from '../../dialect.ts';
import { failureInside, malformed } from '../../failure.ts';
import { type FileField, writeForm } from '../../long-body.ts';
import type { ImagesDialect } from '../../media/images.ts';
import type { Drawn, DrawnImage, ImageFile } from '../../media/images-wish.ts';
import { spell } from '../../media/spell.ts';
import { readAnswer } from '../../read-answer.ts';
import { readMediaUsage, readUsage } from '../usage.ts';

export const openAiImages: ImagesDialect = {
  mask: 'alpha',
  imagesMax: editImagesMax,
  write({ prompt, images, mask, parameters, more }, target) {
    const { fields, dropped } = spell({ ...more, ...parameters }, target);
    const all = { model: target.upstreamModel, prompt, ...fields };
    if (images.length === 0) {
      const body = JSON.stringify(all);
      return { path: '/images/generations', body, dropped };
    }
    const name = images.length === 1 ? 'image' : 'image[]';
    const files = images.map((image) => fileOf(name, image));
    if (mask) files.push(fileOf('mask', mask));
    return { path: '/images/edits', ...writeForm(all, files), dropped };
  },
  read: (text) => readAnswer(text, readImages),
};

function fileOf(name: string, { mediaType, content }: ImageFile): FileField {
  const extension = mediaType.replace('image/', '');
  const filename = `${name.replace('[]', '')}.${extension}`;
  return { name, filename, contentType: mediaType, content };
}

/** Also reads SiliconFlow's answers, which have the list under `images`. */
export function readImages(body: Fields): Drawn | UpstreamFailure {
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  // Some servers write the one picture without its list.
  const lists = [body.data, body.images].map((list) => (isObject(list) ? [list] : itemsOf(list)));
  const images = lists.find((list) => list.length > 0)?.flatMap(readImage) ?? [];
  if (images.length === 0) return malformed('The upstream answered without a picture.');
  const { size, quality, background, output_format, usage } = body;
  const about = Object.entries({ size, quality, background, output_format });
  return {
    images,
    // Some servers report the usage of images under the names of chats.
    usage: isObject(usage) && 'input_tokens' in usage ? readMediaUsage(usage) : readUsage(usage),
    about: Object.fromEntries(about.filter(([, value]) => isWord(value))),
    usageDetails: detailsIn(usage),
  };
}

function readImage(raw: unknown): readonly DrawnImage[] {
  if (!isObject(raw)) return [];
  const address = textOf(raw.url);
  const base64 = readBase64(raw.b64_json) ?? (/^data:/i.test(address) ? readBase64(address) : null);
  const url = /^https?:\/\//i.test(address) ? address : null;
  if (base64 === null && url === null) return [];
  const { revised_prompt: revised } = raw;
  return [{ base64, url, revisedPrompt: typeof revised === 'string' ? revised : null }];
}

/**
 * Some servers put a whole `data:` URL there, or write base64url, which clients do not read. Null
 * when no client could decode the data.
 */
function readBase64(raw: unknown): string | null {
  if (typeof raw !== 'string') return null;
  const data = raw.replace(/^data:[^,]{0,100};base64,/i, '');
  const base64 = /[-_]/.test(data) ? data.replaceAll('-', '+').replaceAll('_', '/') : data;
  return base64 === '' || /[^A-Za-z0-9+/=\s]/.test(base64) ? null : base64;
}

/** `1536x864`, `high`, `transparent`, `png`. */
function isWord(value: unknown): boolean {
  return typeof value === 'string' && /^[\w:-]{1,40}$/.test(value);
}

const detailNames = ['input_tokens_details', 'output_tokens_details'];

/** How many of the tokens were words and how many pictures. */
function detailsIn(raw: unknown): Fields {
  if (!isObject(raw)) return {};
  const found = detailNames.map((name) => {
    const details = raw[name];
    const counts = Object.entries(fieldsOf(details)).slice(0, 8);
    return [name, Object.fromEntries(counts.filter(([, n]) => !Number.isNaN(readCount(n))))];
  });
  return Object.fromEntries(found.filter(([, counts]) => Object.keys(counts ?? {}).length > 0));
}
