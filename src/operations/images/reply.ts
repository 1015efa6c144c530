import { imageBytesMax } from '../../core/bounds.ts';
import { GatewayError } from '../../core/errors.ts';
import { fieldsOf, isObject, parseJson } from '../../core/json.ts';
import { fileTypeOf, readImageSize } from '../../core/media/images.ts';
import { base64Length } from '../../core/text.ts';
import { noUsage, promptTokens, totalTokens, type Usage } from '../../core/usage.ts';
import type { ReplyIdentity, TransformedReply } from '../../dialects/dialect.ts';
import type { GeneratedImage, GeneratedImages } from '../../dialects/media.ts';
import type { Offer } from '../../route/catalog.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';
import { noMetrics } from '../../upstream/attempt.ts';
import { hostAndPort } from '../../upstream/guard/address-policy.ts';

/** Generous: a provider's storage responds quickly, and images are a few megabytes. */
const fetchMs = 60_000;

/** The base64 characters needed to recognize an image's format. */
const sniffLength = 64;

/** The image of an answer, with what the provider reported about it. */
interface ImageAnswer {
  readonly image: Readonly<Record<string, unknown>>;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly usage: Usage | undefined;
  readonly usageDetails: Readonly<Record<string, unknown>>;
}

/**
 * Returns the image for the client. If the provider returned a URL, the image is fetched from it,
 * so that every client gets bytes. If that fails, the client gets the URL.
 */
export async function resolveImage(
  generated: GeneratedImages,
  offer: Offer,
  context: AttemptContext,
): Promise<ImageAnswer> {
  const [first] = generated.images;
  const base64 = first?.base64 ?? (await fetchImage(first, offer, context));
  const { usage, usageDetails } = generated;
  const format = base64 === null ? undefined : imageFormat(base64);
  return {
    image: {
      ...(base64 === null ? { url: first?.url } : { b64_json: base64 }),
      ...(first?.revisedPrompt ? { revised_prompt: first.revisedPrompt } : {}),
    },
    attributes: {
      ...generated.metadata,
      ...(format === undefined ? {} : { output_format: format }),
    },
    usage,
    usageDetails,
  };
}

async function fetchImage(
  image: GeneratedImage | undefined,
  { provider, ownAccount }: Offer,
  context: AttemptContext,
): Promise<string | null> {
  if (!image?.url) return null;
  // The operator's own server may have a private address and store its images there.
  const providerUrl = ownAccount?.isUserUrl ? null : URL.parse(provider.baseUrl);
  const result = await context
    .fetchGuarded(image.url, {
      bodyBytesMax: imageBytesMax,
      timeoutMs: fetchMs,
      signal: context.clientSignal,
      reserveMemory: (bytes) => context.reserveMemory(base64Length(bytes)),
      ...(providerUrl && { allowedHost: hostAndPort(providerUrl) }),
    })
    .catch(busyToNull);
  const isImage = result?.ok && result.status === 200 && readImageSize(result.bytes);
  return isImage ? result.bytes.toBase64() : null;
}

/** The image was generated and must be paid for, so it isn't lost if the gateway is too busy. */
function busyToNull(error: unknown): null {
  if (error instanceof GatewayError) return null;
  throw error;
}

/** Detects the format from the bytes, because the format that providers report can be wrong. */
function imageFormat(base64: string): string | undefined {
  const type = fileTypeOf(Buffer.from(base64.slice(0, sniffLength), 'base64')) ?? '';
  return /^image\/(png|jpeg|webp)$/.exec(type)?.[1];
}

export function toReply(
  { image, attributes, usage, usageDetails }: ImageAnswer,
  { created, model }: ReplyIdentity,
): TransformedReply {
  return {
    metrics: { ...noMetrics, usage },
    write: (settled) =>
      JSON.stringify({
        created,
        model,
        data: [image],
        ...attributes,
        usage: { ...writeUsage(settled.usage), ...usageDetails },
      }),
  };
}

/** Writes usage with the field names of chat completions and of OpenAI's image responses. */
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

export function readRecordedImage(text: string): ImageAnswer | undefined {
  const recorded = parseJson(text);
  if (!isObject(recorded)) return undefined;
  const section = (name: string) => fieldsOf(recorded[name]);
  return {
    image: section('image'),
    attributes: section('attributes'),
    usage: { ...noUsage, ...section('usage') },
    usageDetails: section('usageDetails'),
  };
}
