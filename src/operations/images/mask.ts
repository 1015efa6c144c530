import { maskPixelsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { LongBytes } from '../../core/form.ts';
import type { ImageFile } from '../../dialects/media.ts';
import { bodyFromBytes } from '../../dialects/streamed-body.ts';
import { type AlphaProblem, type Coverage, type PngImage, readCoverage, writePng } from './png.ts';

/** Where to edit: clients mark it with opaque pixels, providers want it in ways of their own. */
export class Mask {
  readonly #coverage: Coverage;

  private constructor(coverage: Coverage) {
    this.#coverage = coverage;
  }

  static async read(file: LongBytes): Promise<Mask> {
    const coverage = await readCoverage(file, maskPixelsMax);
    if (typeof coverage === 'string') throw refusals[coverage]();
    if (!coverage.isOpaque.includes(1)) {
      throw invalidMask(
        'mask is transparent everywhere, so there is nothing to edit; what is opaque',
      );
    }
    return new Mask(coverage);
  }

  /** As OpenAI wants it: transparent where to edit, opaque where to keep. */
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

  /** For models that see the mask as a picture: white where to edit, black where to keep. */
  blackAndWhite(): Promise<ImageFile> {
    const { width, height, isOpaque } = this.#coverage;
    return toPng({
      width,
      height,
      color: 'grey',
      fill(row, y) {
        for (let x = 0; x < width; x += 1) row[x] = isOpaque[y * width + x] ? 255 : 0;
      },
    });
  }
}

async function toPng(image: PngImage): Promise<ImageFile> {
  return { mediaType: 'image/png', content: bodyFromBytes(await writePng(image)) };
}

const refusals: Readonly<Record<AlphaProblem, () => GatewayError>> = {
  'not-png': () => invalidMask('mask is not a PNG; send one with an alpha channel: what is opaque'),
  'no-alpha': () => invalidMask('mask has no alpha channel; send a PNG with one: what is opaque'),
  broken: () =>
    invalidMask('mask is a broken PNG; send a whole one with an alpha channel: what is opaque'),
  'too-large': () => invalidRequest(`mask has more than ${maskPixelsMax} pixels.`, 'mask'),
};

function invalidMask(problem: string): GatewayError {
  return invalidRequest(`${problem} in it will be edited.`, 'mask');
}
