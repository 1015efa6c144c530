import { strict as assert } from 'node:assert';
import type { ChatRequestInfo } from '../core/request-info.ts';
import type { Adapter, ClientRequest } from '../dialects/dialect.ts';
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

const noImages: ReadonlyMap<string, string> = new Map();

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

/** Sends a chat request with the given adapter and reads the answer with it. */
export function attemptWithAdapter(options: ChatAttempt): Promise<AttemptResult> {
  return options.request.images.length === 0
    ? sendWithImages(noImages, options)
    : attemptWithImages(options);
}

async function attemptWithImages(options: ChatAttempt): Promise<AttemptResult> {
  const { request, context, offer } = options;
  rejectPrivateImages(request.images, context.addressPolicy);
  const isInline =
    offer.quirks.remote_images === 'inline' ||
    dialects[offer.dialect].chat?.requiresInlineContent === true;
  if (!isInline) return sendWithImages(noImages, options);
  return sendWithImages(await context.inlineImages(request.images), options);
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
  const isReasoningModel = model.features.includes('reasoning');
  const defaultThinking = isReasoningModel
    ? dialects[offer.dialect].chat?.defaultThinking
    : undefined;
  const upstreamRequest = adapter.write({
    upstreamModel,
    provider: offer.provider.name,
    quirks,
    outputTokensMax,
    images,
    modelOutputTokensMax: model.max_completion_tokens ?? null,
    thinking: model.thinking ?? defaultThinking?.(upstreamModel) ?? null,
    isReasoningModel: isReasoningModel,
    outputModalities: model.output_modalities,
    isOwnAccount: offer.ownAccount !== null,
  });
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
