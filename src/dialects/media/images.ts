import type { DialectName } from '../../config/provider-schema.ts';
import type { MediaTarget, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { geminiImages } from '../gemini/images.ts';
import { openAiImages } from '../openai/media/images.ts';
import { siliconFlowImages } from '../siliconflow/images.ts';
import type { Drawn, ImagesWish } from './images-wish.ts';

/** How a dialect makes images: our words into its requests, its answers into images. */
export interface ImagesDialect {
  /**
   * How the upstream is told where to edit. `alpha`: by a PNG that is transparent there. `image`:
   * by one more image, white there and black elsewhere, and in words.
   */
  readonly mask: 'alpha' | 'image';
  /** The most images that it edits in one request. */
  readonly imagesMax: number;
  write(wish: ImagesWish, target: MediaTarget): UpstreamRequest;
  read(text: string): Drawn | UpstreamFailure;
}

const dialects: Partial<Record<DialectName, ImagesDialect>> = {
  openai: openAiImages,
  gemini: geminiImages,
  siliconflow: siliconFlowImages,
};

/** Undefined when that dialect makes no images. */
export function imagesDialect(name: DialectName): ImagesDialect | undefined {
  return dialects[name];
}
