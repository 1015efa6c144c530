import { strict as assert } from 'node:assert';
import type { ChatRequestInfo } from '../core/request-info.ts';
import type { Adapter, ClientRequest, FetchedImages, Target } from '../dialects/dialect.ts';
import { dialects } from '../dialects/registry.ts';
import type { Offer } from '../route/catalog.ts';
import { type AttemptContext, type AttemptResult, attempt } from './attempt.ts';
import { rejectPrivateImages } from './request-urls.ts';

interface ChatAttempt {
  readonly adapter: Adapter;
  readonly request: ChatRequestInfo;
  readonly offer: Offer;
  readonly context: AttemptContext;
  /** Overrides the cap of the context, for later rounds of a call. */
  readonly outputTokensMax?: number | null;
  /** Records the answer: the context's recorder or none. */
  readonly recorder?: AttemptContext['recorder'];
}

const noImages: FetchedImages = new Map();

/** Sends a chat request to an offer, translated to the offer's dialect if necessary. */
export function attemptChat(
  clientRequest: ClientRequest,
  offer: Offer,
  context: AttemptContext,
): Promise<AttemptResult> {
  const adapter = clientRequest.adapterFor(offer.dialect);
  assert(adapter, 'The plan contains an offer that has no adapter for this request.');
  return attemptWithAdapter({
    adapter,
    request: clientRequest.request,
    offer,
    context,
    recorder: context.recorder,
  });
}

/** Returns the properties of an offer that determine how a chat request is written. */
function chatTarget(
  { upstreamModel, quirks, model, provider, dialect, ownAccount }: Offer,
  outputTokensMax: number | null,
  images: FetchedImages,
): Target {
  const isReasoningModel = model.features.includes('reasoning');
  const defaultThinking = isReasoningModel ? dialects[dialect].chat?.defaultThinking : undefined;
  return {
    upstreamModel,
    provider: provider.name,
    quirks,
    outputTokensMax,
    images,
    modelOutputTokensMax: model.max_completion_tokens ?? null,
    thinking: model.thinking ?? defaultThinking?.(upstreamModel) ?? null,
    isReasoningModel,
    outputModalities: model.output_modalities,
    isOwnAccount: ownAccount !== null,
  };
}

/** Stands for an image that the gateway would download, because nothing is downloaded here. */
const placeholderImage = 'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=';

/** Returns the fields of a chat request that the offer would not receive. Sends nothing. */
export function droppedFields(
  adapter: Adapter,
  { images }: Pick<ChatRequestInfo, 'images'>,
  offer: Offer,
): readonly string[] {
  const downloaded = fetchesImages(offer)
    ? new Map(images.map(({ url }) => [url, placeholderImage]))
    : noImages;
  return adapter.write(chatTarget(offer, null, downloaded)).dropped ?? [];
}

/** Returns whether the gateway downloads images for this offer. */
function fetchesImages({ quirks, dialect }: Offer): boolean {
  return (
    quirks.remote_images === 'inline' || dialects[dialect].chat?.requiresInlineContent === true
  );
}

/** Sends a chat request with the given adapter and reads the answer with it. */
export function attemptWithAdapter(options: ChatAttempt): Promise<AttemptResult> {
  return options.request.images.length === 0
    ? sendWithImages(noImages, options)
    : attemptWithImages(options);
}

async function attemptWithImages(options: ChatAttempt): Promise<AttemptResult> {
  const { request, context, offer } = options;
  rejectPrivateImages(request.images, context.addressPolicy);
  if (!fetchesImages(offer)) return sendWithImages(noImages, options);
  return sendWithImages(await context.inlineImages(request.images), options);
}

function sendWithImages(
  images: FetchedImages,
  {
    adapter,
    request,
    offer,
    context,
    outputTokensMax = context.outputTokensMax,
    recorder,
  }: ChatAttempt,
): Promise<AttemptResult> {
  const target = { ...chatTarget(offer, outputTokensMax, images), tenantId: context.tenantId };
  const upstreamRequest = adapter.write(target);
  context.reportDropped(upstreamRequest.dropped ?? []);
  const { stream } = request;
  recorder?.begin(offer, stream ? 'stream' : 'reply');
  return attempt({
    offer,
    context,
    request: upstreamRequest,
    readReply: (text) => adapter.transformReply(text, context.identity),
    stream: stream ? adapter : undefined,
    recorder,
  });
}
