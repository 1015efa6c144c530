import type { AddressInput } from '../core/ask.ts';
import { addressesMax } from '../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import { fileTypeOf } from '../core/media/file-type.ts';
import { tooManyAddresses } from '../dialects/ask/content/addresses.ts';
import { type AddressPolicy, checkUserUrl } from './guard/address-guard.ts';
import type { GuardedFetch } from './guard/guarded-fetch.ts';

/** Images fetched for one request: each is an outgoing call that the client makes us do. */
const imagesMax = 16;
const imageBytesMax = 20 * 1024 * 1024;
/** All images of one request: no provider takes more, and as base64 they are in memory at once. */
const imagesBytesMax = 32 * 1024 * 1024;
const imageTimeoutMs = 15_000;

const imageTypes = /^image\/(png|jpeg|gif|webp)$/;

/**
 * Some upstreams fetch addresses themselves, and one of those may stand inside our network: no
 * client may send it to its neighbours. Host names are the upstream's to resolve, and to check.
 */
export function refuseInnerImages(images: readonly AddressInput[], policy: AddressPolicy): void {
  for (const { url, param } of images) {
    const refusal = isRemote(url) ? checkUserUrl(url, policy) : null;
    if (typeof refusal === 'string') throw unfetchable(refusal, param);
  }
}

/** The same for whatever else an upstream may fetch. */
export function refuseInnerAddresses(
  addresses: readonly AddressInput[] | undefined,
  policy: AddressPolicy,
): void {
  const beyond = addresses?.[addressesMax];
  if (beyond) throw tooManyAddresses(beyond.param);
  for (const { url, param } of addresses ?? []) {
    const refusal = checkUserUrl(url, policy);
    if (typeof refusal !== 'string') continue;
    throw invalidRequest(`${param} cannot be fetched: ${refusal}`, param);
  }
}

/**
 * Fetches images for upstreams that take bytes only. Returns for each http address the `data:` URL
 * that replaces it; the addresses come from clients, so every one passes the guard.
 */
export async function inlineImages(
  images: readonly AddressInput[],
  fetchGuarded: GuardedFetch,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const remote = new Map(
    images.filter(({ url }) => isRemote(url)).map((image) => [image.url, image]),
  );
  if (remote.size > imagesMax) {
    const message = `This model takes at most ${imagesMax} image addresses; send data: URLs.`;
    throw invalidRequest(message, [...remote.values()][imagesMax]?.param);
  }
  const allowance = { bytes: imagesBytesMax };
  // An image that cannot be fetched ends the request, so nothing more is fetched for it.
  const refused = new AbortController();
  const over = AbortSignal.any([signal, refused.signal]);
  const fetched = [...remote.values()].map(async ({ url, param }) => {
    const result = await fetchGuarded(url, {
      bodyBytesMax: imageBytesMax,
      allowance,
      timeoutMs: imageTimeoutMs,
      signal: over,
    });
    if (!result.ok) throw unfetchable(result.reason, param);
    const named = result.contentType?.split(';')[0]?.trim().toLowerCase() ?? '';
    // Storage services call everything `application/octet-stream`.
    const type = fileTypeOf(result.bytes) ?? named;
    if (result.status !== 200 || !imageTypes.test(type)) {
      const got = result.status === 200 ? named || 'no content type' : `status ${result.status}`;
      throw invalidRequest(`This address is not an image: it answered with ${got}.`, param);
    }
    const data = Buffer.from(result.bytes).toString('base64');
    return [url, `data:${type};base64,${data}`] as const;
  });
  try {
    return new Map(await Promise.all(fetched));
  } finally {
    refused.abort();
  }
}

function isRemote(url: string): boolean {
  return /^https?:/i.test(url);
}

function unfetchable(reason: string, param: string): GatewayError {
  return invalidRequest(`This image cannot be fetched: ${reason}`, param);
}
