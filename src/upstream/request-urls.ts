import { requestUrlsMax } from '../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import { fileTypeOf } from '../core/media/images.ts';
import type { UrlInput } from '../core/request-info.ts';
import { base64Length } from '../core/text.ts';
import { tooManyUrls } from '../dialects/normalize/requests/external-references.ts';
import type { AttemptContext } from './attempt.ts';
import { type AddressPolicy, checkUserUrl } from './guard/address-policy.ts';

/** The most images that are downloaded for one request. */
const imagesMax = 16;
const imageBytesMax = 20 * 1024 * 1024;
/**
 * The limit for all images of a request. As base64 they take 40 MiB, a tenant's share of the memory
 * budget on the smallest machine.
 */
const totalImageBytesMax = 30 * 1024 * 1024;
const imageTimeoutMs = 15_000;

const imageTypes = /^image\/(png|jpeg|gif|webp)$/;

/**
 * Rejects private image URLs. An upstream that fetches URLs itself may run inside our network, and
 * clients must not reach its neighbors through it. Host names are not resolved here, because the
 * upstream does that.
 */
export function rejectPrivateImages(images: readonly UrlInput[], policy: AddressPolicy): void {
  for (const { url, param } of images) {
    if (!isRemote(url)) continue;
    const checked = checkUserUrl(url, policy);
    if (!checked.ok) throw imageError(checked.reason, param);
  }
}

/** Rejects private URLs in all other fields whose URLs an upstream may fetch. */
export function rejectPrivateUrls(
  urls: readonly UrlInput[] | undefined,
  policy: AddressPolicy,
): void {
  const excess = urls?.[requestUrlsMax];
  if (excess) throw tooManyUrls(excess.param);
  for (const { url, param } of urls ?? []) {
    const checked = checkUserUrl(url, policy);
    if (!checked.ok) throw invalidRequest(`${param} can't be fetched: ${checked.reason}`, param);
  }
}

export interface DownloadContext extends Pick<AttemptContext, 'fetchGuarded' | 'reserveMemory'> {
  readonly signal: AbortSignal;
}

/**
 * Downloads images for upstreams that accept only bytes. Returns the `data:` URL for each http URL.
 * The URLs come from clients, so each is checked by the guard.
 */
export async function inlineImages(
  images: readonly UrlInput[],
  { signal, fetchGuarded, reserveMemory }: DownloadContext,
): Promise<ReadonlyMap<string, string>> {
  const remote = new Map(
    images.filter(({ url }) => isRemote(url)).map((image) => [image.url, image]),
  );
  if (remote.size > imagesMax) {
    const message = `This model accepts at most ${imagesMax} image URLs. Use data: URLs instead.`;
    throw invalidRequest(message, [...remote.values()][imagesMax]?.param);
  }
  const byteBudget = { bytes: totalImageBytesMax };
  // A failed download fails the request, so the other downloads are aborted.
  const failed = new AbortController();
  const abortSignal = AbortSignal.any([signal, failed.signal]);
  const fetched = [...remote.values()].map(async ({ url, param }) => {
    const result = await fetchGuarded(url, {
      bodyBytesMax: imageBytesMax,
      byteBudget,
      timeoutMs: imageTimeoutMs,
      signal: abortSignal,
      reserveMemory: (bytes) => reserveMemory(base64Length(bytes)),
    });
    if (!result.ok) throw imageError(result.reason, param);
    const declaredType = result.contentType?.split(';')[0]?.trim().toLowerCase() ?? '';
    // Storage services often declare `application/octet-stream`.
    const type = fileTypeOf(result.bytes) ?? declaredType;
    if (result.status !== 200 || !imageTypes.test(type)) {
      const actual =
        result.status === 200 ? declaredType || 'no content type' : `status ${result.status}`;
      const message = `The URL isn't a PNG, JPEG, GIF, or WebP image. It returned ${actual}.`;
      throw invalidRequest(message, param);
    }
    return [url, `data:${type};base64,${result.bytes.toBase64()}`] as const;
  });
  try {
    return new Map(await Promise.all(fetched));
  } finally {
    failed.abort();
  }
}

function isRemote(url: string): boolean {
  return /^https?:/i.test(url);
}

function imageError(reason: string, param: string): GatewayError {
  return invalidRequest(`The image can't be fetched: ${reason}`, param);
}
