import type { ImageInput } from '../core/chat.ts';
import { invalidRequest } from '../core/errors.ts';
import type { GuardedFetch } from './guarded-fetch.ts';

/** Pictures fetched for one request: each is an outgoing call that the client makes us do. */
const imagesMax = 16;
const imageBytesMax = 20 * 1024 * 1024;
const imageTimeoutMs = 15_000;

const imageTypes = /^image\/(png|jpeg|gif|webp)$/;

/**
 * Fetches pictures for upstreams that take bytes only. Answers each http address with the `data:`
 * URL that stands for it; the addresses come from clients, so every one passes the guard.
 */
export async function inlineImages(
  images: readonly ImageInput[],
  fetchGuarded: GuardedFetch,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const remote = new Map(
    images.filter(({ url }) => /^https?:/i.test(url)).map((image) => [image.url, image]),
  );
  if (remote.size > imagesMax) {
    const message = `This model takes at most ${imagesMax} image addresses; send data: URLs.`;
    throw invalidRequest(message, [...remote.values()][imagesMax]?.param);
  }
  const fetched = [...remote.values()].map(async ({ url, param }) => {
    const result = await fetchGuarded(url, {
      bodyBytesMax: imageBytesMax,
      timeoutMs: imageTimeoutMs,
      signal,
    });
    if (!result.ok) throw invalidRequest(`This image cannot be fetched: ${result.reason}`, param);
    const type = result.contentType?.split(';')[0]?.trim().toLowerCase() ?? '';
    if (result.status !== 200 || !imageTypes.test(type)) {
      const got = result.status === 200 ? type || 'no content type' : `status ${result.status}`;
      throw invalidRequest(`This address is not an image: it answered with ${got}.`, param);
    }
    const data = Buffer.from(result.bytes).toString('base64');
    return [url, `data:${type};base64,${data}`] as const;
  });
  return new Map(await Promise.all(fetched));
}
