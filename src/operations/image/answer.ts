import { pictureBytesMax } from '../../core/bounds.ts';
import { fieldsOf, isObject, parseJson } from '../../core/json.ts';
import { fileTypeOf } from '../../core/media/file-type.ts';
import { readImageSize } from '../../core/media/image-size.ts';
import { noUsage, promptTokens, totalTokens, type Usage } from '../../core/usage.ts';
import type { ReplyIdentity, ReplyRelay } from '../../dialects/dialect.ts';
import type { Drawn, DrawnImage } from '../../dialects/media/images-wish.ts';
import type { Offer } from '../../route/catalogue.ts';
import { hostAndPort } from '../../upstream/guard/address-guard.ts';
import type { Link } from '../../upstream/link.ts';
import { noFacts } from '../../upstream/try-whole.ts';

/** A provider's own storage answers at once; its images are a few megabytes. */
const fetchMs = 60_000;

/** Enough of an image to tell what it is, in base64. */
const startLength = 64;

/** The one image of an answer, and what was said about it. */
interface ImageAnswer {
  readonly image: Readonly<Record<string, unknown>>;
  readonly about: Readonly<Record<string, unknown>>;
  readonly usage: Usage | undefined;
  readonly usageDetails: Readonly<Record<string, unknown>>;
}

/**
 * The image that a client gets. Some providers answer with an address: the image is fetched from
 * there, so that every client gets bytes; where that fails, the address is better than nothing.
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
  // The operator's own server may be at a private address, and keeps its images there.
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

/** Read from the bytes: what a provider says of them is not always true. */
function formatOf(base64: string): string | undefined {
  const type = fileTypeOf(Buffer.from(base64.slice(0, startLength), 'base64')) ?? '';
  return /^image\/(png|jpeg|webp)$/.exec(type)?.[1];
}

export function relayOf(
  { image, about, usage, usageDetails }: ImageAnswer,
  { created, model }: ReplyIdentity,
): ReplyRelay {
  return {
    facts: { ...noFacts, usage },
    write: (closing) =>
      JSON.stringify({
        created,
        model,
        data: [image],
        ...about,
        usage: { ...writeUsage(closing.usage), ...usageDetails },
      }),
  };
}

/** Usage under chat's names, and under those that OpenAI's libraries look for in image answers. */
function writeUsage(usage: Usage) {
  const [input, output] = [promptTokens(usage), usage.outputTokens];
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: totalTokens(usage),
    input_tokens: input,
    output_tokens: output,
  };
}

export function readRecorded(text: string): ImageAnswer | undefined {
  const recorded = parseJson(text);
  if (!isObject(recorded)) return undefined;
  const part = (name: string) => fieldsOf(recorded[name]);
  return {
    image: part('image'),
    about: part('about'),
    usage: { ...noUsage, ...part('usage') },
    usageDetails: part('usageDetails'),
  };
}
