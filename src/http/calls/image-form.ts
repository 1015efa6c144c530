import { editImagesMax, imageEditBytesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import {
  addField,
  type FormFile,
  flagIn,
  givenTwice,
  listName,
  wantsFile,
  wantsText,
} from '../../core/form.ts';
import {
  type ImageSize,
  imageHeaderBytesMax,
  imageHeaderBytesUsual,
  readImageSize,
} from '../../core/media/image-size.ts';
import type { Upload, UploadTray } from '../../core/upload.ts';
import { type FormFields, sortForm } from '../../dialects/openai/media/form-routing.ts';
import { imagesSchema, readImagesRequest } from '../../dialects/openai/media/images-request.ts';
import { Mask } from '../../operations/image/mask.ts';
import type { SentImage, SentMask } from '../../operations/images.ts';
import { declaredLength, type Posted, tooLarge } from '../body/body.ts';
import { readForm } from '../body/multipart.ts';

/** Reads the form of an image edit; its files lie in the tray and have been checked. */
export async function readEdit(posted: Posted, tray: UploadTray) {
  const declared = declaredLength(posted.request) ?? 0;
  if (declared > imageEditBytesMax) throw tooLarge(imageEditBytesMax);
  const fields = new Map<string, string[]>();
  const images: Upload[] = [];
  const masks: Upload[] = [];
  let bytes = 0;
  const count = (more: number) => {
    bytes += more;
    if (bytes > imageEditBytesMax) throw tooLarge(imageEditBytesMax);
  };
  for await (const part of readForm(posted, imageEditBytesMax)) {
    if (part.kind === 'file') {
      const kind = readKind(part, images.length, masks.length);
      const upload = await tray.keep(weighed(part.chunks, count));
      (kind === 'mask' ? masks : images).push(upload);
      continue;
    }
    count(Buffer.byteLength(part.value));
    addField(fields, part);
  }
  const request = readImagesRequest(valuesOf(fields));
  if (images.length === 0) throw invalidRequest('image is required: a file.', 'image');
  const looked: Awaited<ReturnType<typeof look>>[] = [];
  // One after the other: the beginnings of all images at once would take much memory.
  for (const image of images) looked.push(await look(image, 'image'));
  const mask = masks[0] ? await readMask(masks[0], looked[0]?.size) : null;
  return { request, images: looked.map(({ image }) => image), mask };
}

/** Several images come as a list, or as `image` again and again. */
function readKind({ name }: FormFile, images: number, masks: number): 'image' | 'mask' {
  const kind = listName(name);
  if (kind !== 'image' && kind !== 'mask') throw wantsText(name);
  if (kind === 'mask' && masks > 0) throw givenTwice('mask');
  if (kind === 'image' && images === editImagesMax) {
    throw invalidRequest(`image is given more than ${editImagesMax} times.`, 'image');
  }
  return kind;
}

async function* weighed(
  chunks: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    count(chunk.length);
    yield chunk;
  }
}

/** The values that the texts of a form stand for. */
function valuesOf(fields: FormFields): Record<string, unknown> {
  const field = [...fields.keys()].find((name) => /^(?:image|mask)$/.test(listName(name)));
  if (field) throw wantsFile(field);
  const { routing, rest } = sortForm(fields);
  const values = [...rest].map(([name, [text = '', ...more]]) => {
    if (more.length > 0) throw givenTwice(name);
    return [name, readValue(name, text)] as const;
  });
  return { ...routing, ...Object.fromEntries(values) };
}

/** Forms also send fields that were left blank: those count as left out. */
function readValue(name: string, text: string): unknown {
  if (text === '' && Object.hasOwn(imagesSchema.properties, name)) return undefined;
  if (name === 'n' && /^-?\d+$/.test(text)) return Number(text);
  if (name === 'stream') return flagIn(text);
  return text;
}

const mediaTypes = { PNG: 'image/png', JPEG: 'image/jpeg', WebP: 'image/webp' } as const;

async function look(content: Upload, param: string) {
  if (content.bytes === 0) throw invalidRequest(`${param} is empty.`, param);
  const size =
    readImageSize(await content.start(imageHeaderBytesUsual)) ??
    readImageSize(await content.start(imageHeaderBytesMax));
  if (!size) throw invalidRequest(`${param} is not a PNG, JPEG or WebP image.`, param);
  const image: SentImage = { mediaType: mediaTypes[size.kind], content };
  return { size, image };
}

async function readMask(upload: Upload, image: ImageSize | undefined): Promise<SentMask> {
  const { size } = await look(upload, 'mask');
  if (image && (size.width !== image.width || size.height !== image.height)) {
    const sizes = [size, image].map(({ width, height }) => `${width}x${height}`);
    const found = `mask is ${sizes[0]} and image is ${sizes[1]}`;
    throw invalidRequest(`${found}; they must have the same size.`, 'mask');
  }
  return { mask: await Mask.read(upload), sha256: upload.sha256 };
}
