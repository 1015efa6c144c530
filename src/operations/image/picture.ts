import { pictureBytesMax } from '../../core/bounds.ts';
import { readImageSize } from '../../core/image-size.ts';
import type { Drawn, DrawnImage } from '../../dialects/media/images-wish.ts';
import type { Offer } from '../../route/catalogue.ts';
import { hostAndPort } from '../../upstream/address-guard.ts';
import type { Link } from '../../upstream/link.ts';
import type { ImageAnswer } from './drawn.ts';

/** A provider's own storage answers at once; its images are a few megabytes. */
const fetchMs = 60_000;

/** Enough of an image to tell what it is, in base64. */
const startLength = 64;

/**
 * The image that a client gets. Some providers answer with an address: what lies there is
 * fetched, so that every client finds bytes; where that fails, the address is better than nothing.
 */
export async function imageAnswerOf(drawn: Drawn, offer: Offer, link: Link): Promise<ImageAnswer> {
  const [first] = drawn.images;
  const base64 = first?.base64 ?? (await fetchedImage(first, offer, link));
  const { usage, usageDetails } = drawn;
  const format = base64 === null ? undefined : formatOf(base64);
  return {
    image: {
      ...(base64 === null ? { url: first?.url } : { b64_json: base64 }),
      ...(first?.revisedPrompt ? { revised_prompt: first.revisedPrompt } : {}),
    },
    about: { ...drawn.about, ...(format === undefined ? {} : { output_format: format }) },
    usage,
    usageDetails,
  };
}

async function fetchedImage(
  image: DrawnImage | undefined,
  { provider, own }: Offer,
  link: Link,
): Promise<string | null> {
  if (!image?.url) return null;
  // A server of the operator's may be at a private address, and keeps its images there.
  const home = own?.isUserAddress ? null : URL.parse(provider.baseUrl);
  const result = await link.fetchGuarded(image.url, {
    bodyBytesMax: pictureBytesMax,
    timeoutMs: fetchMs,
    signal: link.client,
    ...(home && { vouchedHost: hostAndPort(home) }),
  });
  const isImage = result.ok && result.status === 200 && readImageSize(result.bytes);
  return isImage ? Buffer.from(result.bytes).toString('base64') : null;
}

/** From the bytes: what a provider says of them is not always so. */
function formatOf(base64: string): 'png' | 'jpeg' | 'webp' | undefined {
  const start = Buffer.from(base64.slice(0, startLength), 'base64').toString('latin1');
  if (start.startsWith('\x89PNG')) return 'png';
  if (start.startsWith('\xff\xd8')) return 'jpeg';
  return start.startsWith('RIFF') && start.slice(8, 12) === 'WEBP' ? 'webp' : undefined;
}
