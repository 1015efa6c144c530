import { maskPixelsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { StreamedContent } from '../../core/form.ts';
import type { ImageFile } from '../../dialects/media.ts';
import type { MaskEdits } from '../../dialects/openai-media/images.ts';
import { bodyFromBytes } from '../../dialects/streamed-body.ts';
import { type AlphaProblem, type Coverage, type PngImage, readCoverage, writePng } from './png.ts';

/**
 * The area to edit. Clients mark it with opaque pixels, or with transparent ones if they say so.
 * Each provider has its own format.
 */
export class Mask {
  readonly #width: number;
  readonly #height: number;
  /** 1 for each pixel to edit, row by row. */
  readonly #isEdited: Uint8Array;

  private constructor({ width, height, isOpaque }: Coverage, edits: MaskEdits) {
    this.#width = width;
    this.#height = height;
    this.#isEdited = edits === 'opaque' ? isOpaque : isOpaque.map((opaque) => 1 - opaque);
  }

  static async read(file: StreamedContent, edits: MaskEdits = 'opaque'): Promise<Mask> {
    const coverage = await readCoverage(file, maskPixelsMax);
    if (typeof coverage === 'string') throw invalidMask(problems[coverage], edits);
    const mask = new Mask(coverage, edits);
    if (mask.#isEdited.includes(1)) return mask;
    const other = edits === 'opaque' ? 'transparent' : 'opaque';
    throw invalidMask(`mask is ${other} everywhere`, edits);
  }

  /** Returns OpenAI's format: transparent where to edit, opaque where to keep. */
  inverted(): Promise<ImageFile> {
    return this.#toPng('rgb+alpha', (row, x, isEdited) => {
      row[x * 4 + 3] = isEdited ? 0 : 255;
    });
  }

  /** Returns the format for models that read the mask as an image: white to edit, black to keep. */
  blackAndWhite(): Promise<ImageFile> {
    return this.#toPng('gray', (row, x, isEdited) => {
      row[x] = isEdited ? 255 : 0;
    });
  }

  async #toPng(
    color: PngImage['color'],
    fillPixel: (row: Parameters<PngImage['fill']>[0], x: number, isEdited: boolean) => void,
  ): Promise<ImageFile> {
    const [width, height, isEdited] = [this.#width, this.#height, this.#isEdited];
    const image: PngImage = {
      ...{ width, height, color },
      fill(row, y) {
        for (let x = 0; x < width; x += 1) fillPixel(row, x, isEdited[y * width + x] === 1);
      },
    };
    return { mediaType: 'image/png', content: bodyFromBytes(await writePng(image)) };
  }
}

const problems: Readonly<Record<AlphaProblem, string>> = {
  'not-png': 'mask is not a PNG',
  'no-alpha': 'mask has no alpha channel',
  broken: 'mask is a damaged PNG',
  'too-large': `mask has more than ${maskPixelsMax} pixels`,
};

function invalidMask(problem: string, edits: MaskEdits): GatewayError {
  const advice = `Send a PNG with an alpha channel whose ${edits} pixels mark the area to edit.`;
  return invalidRequest(`${problem}. ${advice}`, 'mask');
}
