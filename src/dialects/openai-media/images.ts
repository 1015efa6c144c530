import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { editImagesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import { fieldsOf, isObject, itemsOf, type JsonObject, textOf } from '../../core/json.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { oneOf, optional, validationError } from '../../core/schema.ts';
import type { ReadResult } from '../dialect.ts';
import { failureInside, malformed, readAnswer } from '../failure.ts';
import type {
  GeneratedImage,
  GeneratedImages,
  ImageFile,
  ImageParameters,
  ImagesDialect,
} from '../media.ts';
import { label, nonStreamingRequest, routingFields } from '../normalize/requests/routing.ts';
import { foldCase, forwardableFields } from '../normalize/requests/unknown-fields.ts';
import { toVendorParameters } from '../normalize/requests/vendor-parameters.ts';
import { readCount } from '../normalize/responses/counts.ts';
import { isPrivateName } from '../normalize/responses/private-fields.ts';
import { readMediaUsage, readUsage } from '../openai-chat/usage.ts';
import { type FileField, writeForm } from '../streamed-body.ts';

// Image requests in OpenAI's format, as clients send them.

/** Models accept about 30,000 characters. This bound only limits memory. */
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
  /** `standard` and `hd` are DALL·E's names. */
  quality: optional(oneOf('low', 'medium', 'high', 'auto', 'standard', 'hd')),
  n: optional(Type.Integer({ minimum: 1 })),
  background: optional(oneOf('transparent', 'opaque', 'auto')),
  output_format: optional(oneOf('png', 'jpeg', 'webp')),
  /** Every image is returned as `b64_json`. Some clients set it explicitly. */
  response_format: optional(oneOf('b64_json')),
  stream: optional(Type.Boolean()),
  user: label,
});
const validator = Compile(imagesSchema);

export interface ImagesRequest {
  readonly request: RequestInfo;
  readonly prompt: string;
  readonly parameters: ImageParameters;
  readonly extraFields: Readonly<Record<string, unknown>>;
}

/** The fields that vendors read the number of images from. Each image is charged. */
const countFields = [
  'n',
  'batch_size',
  'num_images',
  'num_images_per_prompt',
  'num_outputs',
  'samples',
];

function rejectMultipleImages(body: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(body)) {
    // `Number`, because form values are strings.
    if (!countFields.includes(foldCase(name)) || !(Number(value ?? 1) > 1)) continue;
    const found = `${name} is ${JSON.stringify(value)}`;
    throw invalidRequest(`${found}, but each request can generate only one image.`, name);
  }
}

export function readImagesRequest(value: Record<string, unknown>): ImagesRequest {
  if (!validator.Check(value)) throw validationError(imagesSchema, value);
  const { stream, user } = value;
  rejectMultipleImages(value);
  if (stream) {
    throw invalidRequest('stream is not supported for images. Leave it out.', 'stream');
  }
  const extraFields = forwardableFields(value, imagesSchema.properties);
  return {
    request: nonStreamingRequest('images', value, extraFields),
    prompt: value.prompt,
    parameters: {
      size: value.size ?? null,
      quality: qualityOf(value.quality),
      background: value.background ?? null,
      output_format: value.output_format ?? null,
      user: user ?? null,
    },
    extraFields,
  };
}

function qualityOf(quality: Static<typeof imagesSchema>['quality']): ImageParameters['quality'] {
  if (quality === 'hd') return 'high';
  return quality === 'standard' ? 'medium' : (quality ?? null);
}

/** Which pixels of a mask mark the area to edit. OpenAI's clients send masks for `transparent`. */
const maskEdits = oneOf('opaque', 'transparent');
/** The fields that only an edit has. */
export const editSchema = Type.Object({ mask_edits: optional(maskEdits) });
const editValidator = Compile(editSchema);
export type MaskEdits = Static<typeof maskEdits>;

export function readMaskEdits(value: Record<string, unknown>): MaskEdits {
  if (!editValidator.Check(value)) throw validationError(editSchema, value);
  return value.mask_edits ?? 'opaque';
}

// Images of OpenAI-style upstreams.

export const openAiImages: ImagesDialect = {
  mask: 'alpha',
  imagesMax: editImagesMax,
  write({ prompt, images, mask, parameters, extraFields }, target) {
    const { fields, dropped } = toVendorParameters({ ...extraFields, ...parameters }, target);
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
  readGeneratedImages: (text) => readAnswer(text, readImages),
};

function fileOf(name: string, { mediaType, content }: ImageFile): FileField {
  const extension = mediaType.replace('image/', '');
  const filename = `${name.replace('[]', '')}.${extension}`;
  return { name, filename, contentType: mediaType, content };
}

/** Reads an answer's images. SiliconFlow sends the list in `images`. */
export function readImages(body: JsonObject): ReadResult<GeneratedImages> {
  const failure = failureInside(body);
  if (failure !== undefined) return { ok: false, failure };
  // Some servers send a single image without a list.
  const lists = [body.data, body.images].map((list) => (isObject(list) ? [list] : itemsOf(list)));
  const images = lists.find((list) => list.length > 0)?.flatMap(readImage) ?? [];
  if (images.length === 0) {
    return { ok: false, failure: malformed('The provider returned no image.') };
  }
  const { size, quality, background, output_format, usage } = body;
  const metadata = Object.entries({ size, quality, background, output_format });
  const value: GeneratedImages = {
    images,
    // Some servers report image usage in the fields that chat completions use.
    usage: isObject(usage) && 'input_tokens' in usage ? readMediaUsage(usage) : readUsage(usage),
    metadata: Object.fromEntries(metadata.filter(([, value]) => isPlainValue(value))),
    usageDetails: detailsIn(usage),
  };
  return { ok: true, value };
}

function readImage(raw: unknown): readonly GeneratedImage[] {
  if (!isObject(raw)) return [];
  const rawUrl = textOf(raw.url);
  const base64 = readBase64(raw.b64_json) ?? (/^data:/i.test(rawUrl) ? readBase64(rawUrl) : null);
  const url = /^https?:\/\//i.test(rawUrl) ? rawUrl : null;
  if (base64 === null && url === null) return [];
  const { revised_prompt: revised } = raw;
  return [{ base64, url, revisedPrompt: typeof revised === 'string' ? revised : null }];
}

/**
 * Reads base64. Some servers send a complete `data:` URL, or base64url, which clients can't read.
 * Returns null for data that no client could decode.
 */
function readBase64(raw: unknown): string | null {
  if (typeof raw !== 'string') return null;
  const data = raw.replace(/^data:[^,]{0,100};base64,/i, '');
  const base64 = /[-_]/.test(data) ? data.replaceAll('-', '+').replaceAll('_', '/') : data;
  return base64 === '' || /[^A-Za-z0-9+/=\s]/.test(base64) ? null : base64;
}

/** Matches values such as `1536x864`, `high`, `transparent`, `png`. */
function isPlainValue(value: unknown): boolean {
  return typeof value === 'string' && /^[\w:-]{1,40}$/.test(value);
}

const detailNames = ['input_tokens_details', 'output_tokens_details'];

/** Returns the token counts by modality. */
function detailsIn(raw: unknown): JsonObject {
  if (!isObject(raw)) return {};
  const found = detailNames.map((name) => {
    const details = raw[name];
    const counts = Object.entries(fieldsOf(details)).slice(0, 8);
    const isCount = ([name, n]: [string, unknown]) =>
      !Number.isNaN(readCount(n)) && !isPrivateName(name);
    return [name, Object.fromEntries(counts.filter(isCount))];
  });
  return Object.fromEntries(found.filter(([, counts]) => Object.keys(counts ?? {}).length > 0));
}
