import { deflateSync } from 'node:zlib';
import { invalidRequest } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import {
  type ImageSize,
  imageHeaderBytesMax,
  pngChunk,
  pngFile,
  readImageSize,
} from '../core/media/images.ts';
import {
  choiceField,
  flagField,
  formFields,
  formFiles,
  integerField,
  jsonReply,
  type Reply,
  readForm,
  readJsonBody,
  requiredTextField,
  textField,
} from './http.ts';
import { countTokens } from './tokens.ts';

// POST /v1/images/generations and /edits: gradients whose colors depend on the prompt.

/** Larger images would take noticeable time to draw. */
const sideMax = 2_048;
const imagesMax = 10;
const inputImagesMax = 16;
/** The side of a square tile. Each tile is 1 token, so an image of 1024x1024 is 1,024 tokens. */
const tilePixels = 32;

interface Size {
  readonly width: number;
  readonly height: number;
}

export async function answerImageGeneration(request: Request): Promise<Reply> {
  const body = await readJsonBody(request);
  return draw(body, [], { width: 1_024, height: 1_024 });
}

export async function answerImageEdit(request: Request): Promise<Reply> {
  const form = await readForm(request);
  const files = formFiles(form, 'image');
  if (files.length === 0 || files.length > inputImagesMax) {
    throw invalidRequest(`'image' is required: 1 to ${inputImagesMax} files.`, 'image');
  }
  const images = await Promise.all(files.map((file) => measure(file, 'image')));
  const [first] = images;
  const [mask] = await Promise.all(formFiles(form, 'mask').map((file) => measure(file, 'mask')));
  if (first === undefined) throw invalidRequest("'image' is required.", 'image');
  if (mask !== undefined && (mask.width !== first.width || mask.height !== first.height)) {
    throw invalidRequest("'mask' must be the same size as 'image'.", 'mask');
  }
  return draw(formFields(form), images.map(fitWithin), fitWithin(first));
}

async function measure(file: File, field: string): Promise<ImageSize> {
  const size = readImageSize(await file.slice(0, imageHeaderBytesMax).bytes());
  if (size !== undefined) return size;
  throw invalidRequest(`'${field}' must be a PNG, JPEG, or WebP image.`, field);
}

/** Limits an image's size for billing, because a file's header may claim any size. */
function fitWithin({ width, height }: Size): Size {
  const scale = Math.min(1, sideMax / Math.max(width, height));
  return {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
}

function draw(fields: JsonObject, inputs: readonly Size[], sizeWhenAuto: Size): Reply {
  const prompt = requiredTextField(fields, 'prompt');
  const count = integerField(fields, 'n', 1, imagesMax) ?? 1;
  choiceField(fields, 'response_format', ['b64_json']);
  if (flagField(fields, 'stream')) {
    throw invalidRequest('The demo does not stream images.', 'stream');
  }
  const size = readSize(fields) ?? sizeWhenAuto;
  const { width, height } = size;
  const steps = width + height - 1;
  const pixels = compressPixels(width, height, (x, y) => Math.floor(((x + y) * 256) / steps));
  const data = Array.from({ length: count }, (_, index) => {
    const palette = gradient(`${prompt} ${index}`);
    const png = encodePng({ width, height, palette, pixels });
    return { b64_json: png.toString('base64') };
  });
  return jsonReply({
    created: Math.floor(Date.now() / 1_000),
    data,
    background: 'opaque',
    output_format: 'png',
    quality: 'low',
    size: `${width}x${height}`,
    usage: imageUsage(prompt, inputs, size, count),
  });
}

function readSize(fields: JsonObject): Size | undefined {
  const text = textField(fields, 'size') ?? 'auto';
  if (text === 'auto') return undefined;
  const match = /^(\d{1,4})x(\d{1,4})$/.exec(text);
  const [width, height] = [Number(match?.[1]), Number(match?.[2])];
  const fits = width >= 1 && width <= sideMax && height >= 1 && height <= sideMax;
  if (fits) return { width, height };
  throw invalidRequest(
    `'size' must be 'auto' or WIDTHxHEIGHT with sides from 1 to ${sideMax}.`,
    'size',
  );
}

/** Returns a gradient of 256 colors. The seed determines the first and the last color. */
function gradient(seed: string): Uint8Array {
  const [from, to] = [Bun.hash.xxHash32(seed, 1), Bun.hash.xxHash32(seed, 2)];
  const palette = new Uint8Array(256 * 3);
  for (let index = 0; index < palette.length; index += 1) {
    const shift = (index % 3) * 8;
    const [start, end] = [(from >>> shift) & 0xff, (to >>> shift) & 0xff];
    palette[index] = Math.round(start + ((end - start) * Math.floor(index / 3)) / 255);
  }
  return palette;
}

function imageUsage(prompt: string, inputs: readonly Size[], size: Size, count: number) {
  const textTokens = countTokens(prompt);
  const inputImageTokens = inputs.reduce((sum, input) => sum + imageTokens(input), 0);
  const outputTokens = count * imageTokens(size);
  return {
    input_tokens: textTokens + inputImageTokens,
    input_tokens_details: { text_tokens: textTokens, image_tokens: inputImageTokens },
    output_tokens: outputTokens,
    output_tokens_details: { image_tokens: outputTokens, text_tokens: 0 },
    total_tokens: textTokens + inputImageTokens + outputTokens,
  };
}

function imageTokens({ width, height }: Size): number {
  return Math.ceil(width / tilePixels) * Math.ceil(height / tilePixels);
}

// Writes PNG files with up to 256 colors: W3C "Portable Network Graphics", sections 5 and 11.

interface PngImage {
  readonly width: number;
  readonly height: number;
  /** 3 bytes for each color: red, green, blue. */
  readonly palette: Uint8Array;
  /** The result of `compressPixels`. Images that differ only in their colors can share it. */
  readonly pixels: Uint8Array;
}

/** Compresses pixels, row by row. Each pixel is the index of a color in the palette. */
function compressPixels(
  width: number,
  height: number,
  colorAt: (x: number, y: number) => number,
): Uint8Array {
  const rowBytes = width + 1;
  const rows = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y += 1) {
    // The first byte of a row names its filter. It stays 0, which means none.
    for (let x = 0; x < width; x += 1) rows[y * rowBytes + 1 + x] = colorAt(x, y);
  }
  return deflateSync(rows, { level: 1 });
}

function encodePng(image: PngImage): Buffer {
  const { palette, pixels } = image;
  return pngFile(image, 3, [pngChunk('PLTE', palette), pngChunk('IDAT', pixels)]);
}
