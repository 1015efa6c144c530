import type { Model, Provider } from '../config/config.ts';
import type { SpeechSettings } from '../config/model-schema.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import type { TextLimit } from '../core/media/audio.ts';
import { readDataUrlImageSize } from '../core/media/images.ts';
import type { ChatRequestInfo, RequestInfo, UrlInput } from '../core/request-info.ts';

/** Returns why a model can't serve a chat request, phrased to follow the model's name, or null. */
export function chatIncompatibility(model: Model, { needs }: ChatRequestInfo): string | null {
  if (!isChatModel(model)) return 'is not a chat model';
  if (needs.tools && !model.features.includes('tools')) return 'does not support tools';
  if (needs.json && !supportsJson(model)) return 'does not support structured JSON output';
  if (needs.images && !model.input_modalities.includes('image')) return 'does not accept images';
  if (needs.audio && !model.input_modalities.includes('audio')) return 'does not accept audio';
  if (needs.files && !model.input_modalities.includes('file')) return 'does not accept files';
  return null;
}

const nonChatFeatures: ReadonlySet<string> = new Set(['embeddings', 'speech', 'transcription']);

type ModelFeatures = Pick<Model, 'features' | 'output_modalities'>;

export function isChatModel({ features, output_modalities: output }: ModelFeatures): boolean {
  for (const feature of features) if (nonChatFeatures.has(feature)) return false;
  return output.includes('text');
}

/** Returns whether a model can replace another: both are chat models or share another feature. */
export function isSimilarModel(model: Model, other: Model): boolean {
  if (isChatModel(other)) return isChatModel(model);
  return other.features.some((feature) => model.features.includes(feature));
}

/** Returns the default chat model: the demo if it exists, otherwise the first. */
export function chatModelOf(models: readonly Model[]): Model | undefined {
  return models.find(({ id }) => id === 'demo/chat') ?? models.find(isChatModel);
}

function supportsJson(model: Model): boolean {
  return model.features.includes('json_mode') || model.features.includes('json_schema');
}

/** Returns the error if a model would reject the request's images, or null. */
export function imageIncompatibility(
  model: Model,
  { images }: ChatRequestInfo,
): GatewayError | null {
  const { long_edge_px: longEdge, megapixels } = model.image_limits ?? {};
  if (longEdge === undefined && megapixels === undefined) return null;
  for (const { url, param } of images) {
    const size = readDataUrlImageSize(url);
    if (!size) continue;
    const tooLarge = (limit: string) => {
      const actual = `This image is ${size.width}x${size.height}`;
      return invalidRequest(`${actual}; ${model.id} accepts at most ${limit}.`, param);
    };
    if (longEdge !== undefined && Math.max(size.width, size.height) > longEdge) {
      return tooLarge(`${longEdge} px on the long edge`);
    }
    if (megapixels !== undefined && size.width * size.height > megapixels * 1_000_000) {
      return tooLarge(`${megapixels} megapixels`);
    }
  }
  return null;
}

/**
 * Returns the error for a thinking budget on an adaptive model, or null. Requests from Anthropic
 * clients never set this need; see `readNeeds` in dialects/anthropic/client/request.ts.
 */
function thinkingBudgetIncompatibility(
  { id, thinking }: Model,
  { needs }: ChatRequestInfo,
): GatewayError | null {
  if (!needs.thinkingBudget || thinking !== 'adaptive') return null;
  const hint = 'use reasoning.effort instead of reasoning.budget_tokens';
  return invalidRequest(`${id} uses adaptive thinking: ${hint}.`, 'reasoning.budget_tokens');
}

interface RoutedOffer {
  readonly model: Model;
  readonly provider: Pick<Provider, 'baseUrl'>;
  readonly ownAccount: object | null;
}

/** The parts of a request that can reference content in a provider's account. */
type AccountReferences = Pick<RequestInfo, 'ownAccount' | 'urls' | 'images'>;

/**
 * Returns the error for a request that references content in the operator's account, or null.
 * Tenants share that account, so none may reach its content.
 */
function accountIncompatibility(
  { ownAccount, provider }: RoutedOffer,
  { ownAccount: required, urls = [], images = [] }: AccountReferences,
): GatewayError | null {
  if (ownAccount) return null;
  const hint = 'or use your own provider key';
  if (required)
    return invalidRequest(`${required.param} ${required.why}, ${hint}.`, required.param);
  // Gemini accepts URLs of files it stores and reads them with the key of the request.
  const host = hostOf(provider.baseUrl);
  const isProviderAddress = ({ url }: UrlInput) => !/^data:/i.test(url) && hostOf(url) === host;
  const reference = urls.find(isProviderAddress) ?? images.find(isProviderAddress);
  if (!reference) return null;
  const reason = "points to the provider's account: send the content itself";
  return invalidRequest(`${reference.param} ${reason}, ${hint}.`, reference.param);
}

function hostOf(address: string): string | undefined {
  return URL.parse(address)?.host;
}

/**
 * Returns the offers whose account may serve the request. Throws an error that names the field if
 * there are none.
 */
export function entitledOffers<O extends RoutedOffer>(
  offers: readonly O[],
  request: AccountReferences,
): readonly O[] {
  const { ownAccount, urls, images } = request;
  if (!ownAccount && !urls?.length && !images?.length) return offers;
  return withoutIncompatible((offer) => accountIncompatibility(offer, request), offers);
}

/**
 * Returns the offers that accept every field. Throws an error that names the field if there are
 * none.
 */
export function compatibleOffers<O extends RoutedOffer>(
  offers: readonly O[],
  request: ChatRequestInfo,
): readonly O[] {
  if (request.images.length === 0 && !request.needs.thinkingBudget) return offers;
  return withoutIncompatible(
    ({ model }) =>
      thinkingBudgetIncompatibility(model, request) ?? imageIncompatibility(model, request),
    offers,
  );
}

function withoutIncompatible<O>(
  incompatibilityOf: (offer: O) => GatewayError | null,
  offers: readonly O[],
): readonly O[] {
  const compatible: O[] = [];
  let incompatibility: GatewayError | null = null;
  for (const offer of offers) {
    const reason = incompatibilityOf(offer);
    if (reason === null) compatible.push(offer);
    else incompatibility ??= reason;
  }
  if (incompatibility && compatible.length === 0) throw incompatibility;
  return compatible;
}

/** Defaults if the catalog has no limit: characters for first-party style, otherwise bytes. */
const defaultCharactersMax = 4_096;
const defaultBytesMax = 1_000;

export function textLimitOf(settings: SpeechSettings = {}): TextLimit {
  const { style, input_characters_max: characters, input_bytes_max: bytes } = settings;
  const isInCharacters =
    characters !== undefined || (bytes === undefined && style === 'first_party');
  return isInCharacters
    ? { unit: 'characters', max: characters ?? defaultCharactersMax }
    : { unit: 'bytes', max: bytes ?? defaultBytesMax };
}
