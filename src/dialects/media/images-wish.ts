import type { LongBytes } from '../../core/upload.ts';
import type { Usage } from '../../core/usage.ts';

export interface Picture {
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

/** A picture that a client wants made from words, or out of others. */
export interface ImagesWish {
  readonly prompt: string;
  /** To be edited, the first before all; none when there are only words. */
  readonly images: readonly Picture[];
  /** In the form that the upstream understands; null when everything may change. */
  readonly mask: Picture | null;
  readonly parameters: ImageParameters;
  /** Fields that nobody here has heard of; upstreams of OpenAI's kind may. */
  readonly more: Readonly<Record<string, unknown>>;
}

const maskInstruction =
  'The last image is a mask of the first one: change only what is white in the mask, and leave ' +
  'everything that is black in it exactly as it is.';

/** For upstreams that know no masks: it is the last of the pictures, and the words explain it. */
export function shownMask({ prompt, images, mask }: ImagesWish): {
  readonly prompt: string;
  readonly pictures: readonly Picture[];
} {
  if (!mask) return { prompt, pictures: images };
  return { prompt: `${prompt}\n\n${maskInstruction}`, pictures: [...images, mask] };
}

/** One picture of an answer: its bytes, or where they are. */
export interface DrawnImage {
  readonly base64: string | null;
  readonly url: string | null;
  readonly revisedPrompt: string | null;
}

export interface Drawn {
  readonly images: readonly DrawnImage[];
  /** Undefined when the upstream did not count. */
  readonly usage: Usage | undefined;
  /** What it says about its pictures, and about its counts. */
  readonly about: Readonly<Record<string, unknown>>;
  readonly usageDetails: Readonly<Record<string, unknown>>;
}
