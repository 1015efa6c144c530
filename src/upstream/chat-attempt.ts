import { strict as assert } from 'node:assert';
import { addressesMax } from '../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import { fileTypeOf } from '../core/media/images.ts';
import type { AddressInput, ChatRequestInfo } from '../core/request-info.ts';
import type { Adapter, ClientRequest } from '../dialects/dialect.ts';
import { tooManyAddresses } from '../dialects/normalize/requests/external-references.ts';
import { dialects } from '../dialects/registry.ts';
import type { Offer } from '../route/catalog.ts';
import { type AttemptContext, type AttemptResult, attempt } from './attempt.ts';
import { type AddressPolicy, checkUserUrl } from './guard/address-policy.ts';
import type { GuardedFetch } from './guard/guarded-fetch.ts';

interface ChatAttempt {
  readonly adapter: Adapter;
  readonly request: ChatRequestInfo;
  readonly offer: Offer;
  readonly context: AttemptContext;
  /** Used instead of the link's cap, once a call has had its first round. */
  readonly outputTokensMax?: number | null;
  /** Records the answer: the link's own tape, or none. */
  readonly recorder?: AttemptContext['recorder'];
}

const noImages: ReadonlyMap<string, string> = new Map();

/** Puts a conversation into an offer's words and tries it there. */
export function attemptChat(
  clientRequest: ClientRequest,
  offer: Offer,
  context: AttemptContext,
): Promise<AttemptResult> {
  const adapter = clientRequest.adapterFor(offer.dialect);
  assert(adapter, 'No crossing to this dialect was planned.');
  return attemptWithAdapter({
    adapter,
    request: clientRequest.request,
    offer,
    context,
    recorder: context.recorder,
  });
}

/** Sends what a crossing makes of a request and reads what comes back over it. */
export function attemptWithAdapter(options: ChatAttempt): Promise<AttemptResult> {
  return options.request.images.length === 0
    ? sendWithImages(noImages, options)
    : attemptWithImages(options);
}

async function attemptWithImages(options: ChatAttempt): Promise<AttemptResult> {
  const { request, context, offer } = options;
  refusePrivateImages(request.images, context.addressPolicy);
  const isInline =
    offer.quirks.remote_images === 'inline' ||
    dialects[offer.dialect].chat?.requiresInlineContent === true;
  if (!isInline) return sendWithImages(noImages, options);
  return sendWithImages(
    await inlineImages(request.images, context.fetchGuarded, context.client),
    options,
  );
}

function sendWithImages(
  images: ReadonlyMap<string, string>,
  {
    adapter,
    request,
    offer,
    context,
    outputTokensMax = context.outputTokensMax,
    recorder,
  }: ChatAttempt,
): Promise<AttemptResult> {
  const { upstreamModel, quirks, model } = offer;
  const reasons = model.features.includes('reasoning');
  const defaultThinking = reasons ? dialects[offer.dialect].chat?.defaultThinking : undefined;
  const upstreamRequest = adapter.write({
    upstreamModel,
    quirks,
    outputTokensMax,
    images,
    modelOutputTokensMax: model.max_completion_tokens ?? null,
    thinking: model.thinking ?? defaultThinking?.(upstreamModel) ?? null,
    isReasoningModel: reasons,
    outputModalities: model.output_modalities,
    isOwnAccount: offer.own !== null,
  });
  context.reportDropped(upstreamRequest.dropped ?? []);
  const { stream } = request;
  recorder?.begin(offer, stream ? 'stream' : 'whole');
  return attempt({ offer, context, request: upstreamRequest, adapter, stream, recorder });
}

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
export function refusePrivateImages(images: readonly AddressInput[], policy: AddressPolicy): void {
  for (const { url, param } of images) {
    const refusal = isRemote(url) ? checkUserUrl(url, policy) : null;
    if (typeof refusal === 'string') throw unfetchable(refusal, param);
  }
}

/** The same for whatever else an upstream may fetch. */
export function refusePrivateAddresses(
  addresses: readonly AddressInput[] | undefined,
  policy: AddressPolicy,
): void {
  const excess = addresses?.[addressesMax];
  if (excess) throw tooManyAddresses(excess.param);
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
  const byteBudget = { bytes: imagesBytesMax };
  // An image that cannot be fetched ends the request, so nothing more is fetched for it.
  const refused = new AbortController();
  const abortSignal = AbortSignal.any([signal, refused.signal]);
  const fetched = [...remote.values()].map(async ({ url, param }) => {
    const result = await fetchGuarded(url, {
      bodyBytesMax: imageBytesMax,
      byteBudget,
      timeoutMs: imageTimeoutMs,
      signal: abortSignal,
    });
    if (!result.ok) throw unfetchable(result.reason, param);
    const declaredType = result.contentType?.split(';')[0]?.trim().toLowerCase() ?? '';
    // Storage services call everything `application/octet-stream`.
    const type = fileTypeOf(result.bytes) ?? declaredType;
    if (result.status !== 200 || !imageTypes.test(type)) {
      const actual =
        result.status === 200 ? declaredType || 'no content type' : `status ${result.status}`;
      throw invalidRequest(`This address is not an image: it answered with ${actual}.`, param);
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
