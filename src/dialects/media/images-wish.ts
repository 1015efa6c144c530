import type { LongBytes } from '../../core/upload.ts';
import type { Usage } from '../../core/usage.ts';

export interface ImageFile {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/webp';
  readonly content: LongBytes;
}

export interface ImageParameters {
  readonly size: string | null;
  readonly quality: 'low' | 'medium' | 'high' | 'auto' | null;
  readonly background: string | null;
  readonly output_format: string | null;
  readonly user: string | null;
}

/** An image that a client wants made from words, or out of others. */
export interface ImagesWish {
  readonly prompt: string;
  /** The images to edit, the main one first; none when the image is made from words alone. */
  readonly images: readonly ImageFile[];
  /** Where to edit, in the form that the upstream understands; null when everything may change. */
  readonly mask: ImageFile | null;
  readonly parameters: ImageParameters;
  /** Fields that the gateway does not know; OpenAI-style upstreams may. */
  readonly more: Readonly<Record<string, unknown>>;
}

const maskInstruction =
  'The last image is a mask of the first one: change only what is white in the mask, and leave ' +
  'everything that is black in it exactly as it is.';

/**
 * For upstreams that know no masks: the mask goes along as the last image, and the prompt explains
 * it.
 */
export function shownMask({ prompt, images, mask }: ImagesWish): {
  readonly prompt: string;
  readonly images: readonly ImageFile[];
} {
  if (!mask) return { prompt, images };
  return { prompt: `${prompt}\n\n${maskInstruction}`, images: [...images, mask] };
}

/** One image of an answer: its bytes, or where they are. */
export interface DrawnImage {
  readonly base64: string | null;
  readonly url: string | null;
  readonly revisedPrompt: string | null;
}

export interface Drawn {
  readonly images: readonly DrawnImage[];
  /** Undefined when the upstream did not count. */
  readonly usage: Usage | undefined;
  /** What the upstream says about its images; `usageDetails`: about its token counts. */
  readonly about: Readonly<Record<string, unknown>>;
  readonly usageDetails: Readonly<Record<string, unknown>>;
}
