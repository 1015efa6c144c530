import { maskPixelsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { StreamedContent } from '../../core/form.ts';
import type { ImageFile } from '../../dialects/media.ts';
import { bodyFromBytes } from '../../dialects/streamed-body.ts';
import { type AlphaProblem, type Coverage, type PngImage, readCoverage, writePng } from './png.ts';

/** The area to edit. Clients mark it with opaque pixels, and each provider has its own format. */
export class Mask {
  readonly #coverage: Coverage;

  private constructor(coverage: Coverage) {
    this.#coverage = coverage;
  }

  static async read(file: StreamedContent): Promise<Mask> {
    const coverage = await readCoverage(file, maskPixelsMax);
    if (typeof coverage === 'string') throw errors[coverage]();
    if (!coverage.isOpaque.includes(1)) {
      throw invalidMask('mask is transparent everywhere');
    }
    return new Mask(coverage);
  }

  /** Returns OpenAI's format: transparent where to edit, opaque where to keep. */
  inverted(): Promise<ImageFile> {
    const { width, height, isOpaque } = this.#coverage;
    return toPng({
      width,
      height,
      color: 'rgb+alpha',
      fill(row, y) {
        for (let x = 0; x < width; x += 1) row[x * 4 + 3] = isOpaque[y * width + x] ? 0 : 255;
      },
    });
  }

  /** Returns the format for models that read the mask as an image: white to edit, black to keep. */
  blackAndWhite(): Promise<ImageFile> {
    const { width, height, isOpaque } = this.#coverage;
    return toPng({
      width,
      height,
      color: 'gray',
      fill(row, y) {
        for (let x = 0; x < width; x += 1) row[x] = isOpaque[y * width + x] ? 255 : 0;
      },
    });
  }
}

async function toPng(image: PngImage): Promise<ImageFile> {
  return { mediaType: 'image/png', content: bodyFromBytes(await writePng(image)) };
}

const errors: Readonly<Record<AlphaProblem, () => GatewayError>> = {
  'not-png': () => invalidMask('mask is not a PNG'),
  'no-alpha': () => invalidMask('mask has no alpha channel'),
  broken: () => invalidMask('mask is a damaged PNG'),
  'too-large': () => invalidRequest(`mask has more than ${maskPixelsMax} pixels.`, 'mask'),
};

function invalidMask(problem: string): GatewayError {
  const advice = 'Send a PNG with an alpha channel whose opaque pixels mark the area to edit.';
  return invalidRequest(`${problem}. ${advice}`, 'mask');
}
