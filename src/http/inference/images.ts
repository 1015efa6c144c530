import { imagesDocs } from '../../contract/media.ts';
import { editImagesMax, imageEditBytesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import {
  addField,
  duplicateField,
  type FormFile,
  formListName,
  mustBeFile,
  mustBeText,
  parseFormFlag,
  type Upload,
  type UploadDirectory,
} from '../../core/form.ts';
import {
  type ImageSize,
  imageHeaderBytesMax,
  imageHeaderBytesUsual,
  readImageSize,
} from '../../core/media/images.ts';
import { type FormFields, sortForm } from '../../dialects/openai-media/form-routing.ts';
import {
  imagesSchema,
  type MaskEdits,
  readImagesRequest,
  readMaskEdits,
} from '../../dialects/openai-media/images.ts';
import {
  ImagesOperation,
  type UploadedImage,
  type UploadedMask,
} from '../../operations/images/images-operation.ts';
import { Mask } from '../../operations/images/mask.ts';
import { declaredLength, type IncomingRequest, readJson, tooLarge } from '../body/body.ts';
import { readForm } from '../body/multipart.ts';
import { type Route, routesFor } from '../routes.ts';
import {
  callModel,
  callModelWithFiles,
  type ModelCallDeps,
  type UploadCallDeps,
} from './model-call.ts';

const routing = routesFor({ access: 'routing', scope: 'images', errorShape: 'images' });

export function imagesRoutes(deps: UploadCallDeps): Route[] {
  return [
    routing.post('/v1/images/generations', imagesDocs.generate, (exchange, caller) => {
      const read = (incoming: IncomingRequest) => readGeneration(incoming, deps);
      return callModel(exchange, caller, 'images', read, deps);
    }),
    routing.post('/v1/images/edits', imagesDocs.edit, (exchange, caller) => {
      const read = async (incoming: IncomingRequest, uploads: UploadDirectory) => {
        const { request, images, mask } = await readEdit(incoming, uploads);
        return new ImagesOperation(request, images, mask);
      };
      return callModelWithFiles(exchange, caller, 'images', read, deps);
    }),
  ];
}

export async function readGeneration(
  incoming: IncomingRequest,
  { bodyBytesMax }: Pick<ModelCallDeps, 'bodyBytesMax'>,
): Promise<ImagesOperation> {
  const { value } = await readJson(incoming, bodyBytesMax);
  return new ImagesOperation(readImagesRequest(value));
}

/** Reads the form of an image edit. Stores its files and validates them. */
async function readEdit(incoming: IncomingRequest, uploads: UploadDirectory) {
  const declared = declaredLength(incoming.request) ?? 0;
  if (declared > imageEditBytesMax) throw tooLarge(imageEditBytesMax);
  const fields = new Map<string, string[]>();
  const images: Upload[] = [];
  const masks: Upload[] = [];
  let bytes = 0;
  const countBytes = (added: number) => {
    bytes += added;
    if (bytes > imageEditBytesMax) throw tooLarge(imageEditBytesMax);
  };
  for await (const part of readForm(incoming, imageEditBytesMax)) {
    if (part.kind === 'file') {
      const kind = uploadKind(part, images.length, masks.length);
      const upload = await uploads.store(countingChunks(part.chunks, countBytes));
      (kind === 'mask' ? masks : images).push(upload);
      continue;
    }
    countBytes(Buffer.byteLength(part.value));
    addField(fields, part);
  }
  const { mask_edits, ...values } = formValues(fields);
  const edits = readMaskEdits({ mask_edits });
  const request = readImagesRequest(values);
  if (images.length === 0) throw invalidRequest('image is required. Send it as a file.', 'image');
  const inspected: Awaited<ReturnType<typeof inspectImage>>[] = [];
  // One at a time, to bound the memory that headers take.
  for (const image of images) inspected.push(await inspectImage(image, 'image'));
  const mask = masks[0] ? await readMask(masks[0], edits, inspected[0]?.size) : null;
  return { request, images: inspected.map(({ image }) => image), mask };
}

/** Clients send several images as `image[]`, or repeat `image`. */
function uploadKind({ name }: FormFile, images: number, masks: number): 'image' | 'mask' {
  const kind = formListName(name);
  if (kind !== 'image' && kind !== 'mask') throw mustBeText(name);
  if (kind === 'mask' && masks > 0) throw duplicateField('mask');
  if (kind === 'image' && images === editImagesMax) {
    throw invalidRequest(`image has more than ${editImagesMax} files.`, 'image');
  }
  return kind;
}

async function* countingChunks(
  chunks: AsyncIterable<Uint8Array>,
  countBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    countBytes(chunk.length);
    yield chunk;
  }
}

/** Converts form fields to the values of a JSON body. */
function formValues(fields: FormFields): Record<string, unknown> {
  const fileField = [...fields.keys()].find((name) => /^(?:image|mask)$/.test(formListName(name)));
  if (fileField) throw mustBeFile(fileField);
  const { routing: routingFields, rest } = sortForm(fields);
  const values = [...rest].map(([name, [text = '', ...repeated]]) => {
    if (repeated.length > 0) throw duplicateField(name);
    return [name, readValue(name, text)] as const;
  });
  return { ...routingFields, ...Object.fromEntries(values) };
}

/** Forms send blank fields as empty strings, which count as not set. */
function readValue(name: string, text: string): unknown {
  if (text === '' && (Object.hasOwn(imagesSchema.properties, name) || name === 'mask_edits'))
    return undefined;
  if (name === 'n' && /^-?\d+$/.test(text)) return Number(text);
  if (name === 'stream') return parseFormFlag(text);
  return text;
}

const mediaTypes = { PNG: 'image/png', JPEG: 'image/jpeg', WebP: 'image/webp' } as const;

async function inspectImage(content: Upload, param: string) {
  if (content.bytes === 0) throw invalidRequest(`${param} is empty.`, param);
  const size =
    readImageSize(await content.start(imageHeaderBytesUsual)) ??
    readImageSize(await content.start(imageHeaderBytesMax));
  if (!size) throw invalidRequest(`${param} isn't a PNG, JPEG, or WebP image.`, param);
  const image: UploadedImage = { mediaType: mediaTypes[size.kind], content };
  return { size, image };
}

async function readMask(
  upload: Upload,
  edits: MaskEdits,
  image: ImageSize | undefined,
): Promise<UploadedMask> {
  const { size } = await inspectImage(upload, 'mask');
  if (image && (size.width !== image.width || size.height !== image.height)) {
    const [maskSize, imageSize] = [size, image].map(({ width, height }) => `${width}x${height}`);
    const rule = 'it must be the same size as the image';
    const message = `mask is ${maskSize}, but ${rule}, which is ${imageSize}.`;
    throw invalidRequest(message, 'mask');
  }
  return { mask: await Mask.read(upload, edits), edits, sha256: upload.sha256 };
}
