import type { Model, Provider } from '../config/config.ts';
import type { SpeechSettings } from '../config/model-schema.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import type { TextLimit } from '../core/media/audio.ts';
import { readDataUrlImageSize } from '../core/media/images.ts';
import type { AddressInput, ChatRequestInfo, RequestInfo } from '../core/request-info.ts';

/** Why a model cannot serve a chat request, in words that follow its name; null when it can. */
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

/** Whether a model can replace another: both chat, or both have some other feature in common. */
export function isSimilarModel(model: Model, other: Model): boolean {
  if (isChatModel(other)) return isChatModel(model);
  return other.features.some((feature) => model.features.includes(feature));
}

/** The chat model to begin with: the demo if it is there, else the first. */
export function chatModelOf(models: readonly Model[]): Model | undefined {
  return models.find(({ id }) => id === 'demo/chat') ?? models.find(isChatModel);
}

function supportsJson(model: Model): boolean {
  return model.features.includes('json_mode') || model.features.includes('json_schema');
}

/** Why a model would refuse a request's images, so that it is not asked; null when it would not. */
export function imageIncompatibility(
  model: Model,
  { images }: ChatRequestInfo,
): GatewayError | null {
  const { long_edge_px: longEdge, megapixels } = model.image_limits ?? {};
  if (longEdge === undefined && megapixels === undefined) return null;
  for (const { url, param } of images) {
    const size = readDataUrlImageSize(url);
    if (!size) continue;
    const refuse = (most: string) => {
      const found = `This image is ${size.width}x${size.height}`;
      return invalidRequest(`${found}; ${model.id} takes at most ${most}.`, param);
    };
    if (longEdge !== undefined && Math.max(size.width, size.height) > longEdge) {
      return refuse(`${longEdge} px on the long edge`);
    }
    if (megapixels !== undefined && size.width * size.height > megapixels * 1_000_000) {
      return refuse(`${megapixels} megapixels`);
    }
  }
  return null;
}

/** Not for Anthropic's clients, whose needs never name a budget: see messages-request.ts. */
function thinkingBudgetIncompatibility(
  { id, thinking }: Model,
  { needs }: ChatRequestInfo,
): GatewayError | null {
  if (!needs.thinkingBudget || thinking !== 'adaptive') return null;
  const hint = 'use reasoning.effort instead of reasoning.budget_tokens';
  return invalidRequest(`${id} thinks adaptively: ${hint}.`, 'reasoning.budget_tokens');
}

interface RoutedOffer {
  readonly model: Model;
  readonly provider: Pick<Provider, 'baseUrl'>;
  readonly own: object | null;
}

/** The parts of a request that may refer to content in a provider's account. */
type AccountReferences = Pick<RequestInfo, 'ownAccount' | 'addresses' | 'images'>;

/** Tenants share the operator's accounts, so no request may reach the content of one of those. */
function accountIncompatibility(
  { own, provider }: RoutedOffer,
  { ownAccount: required, addresses = [], images = [] }: AccountReferences,
): GatewayError | null {
  if (own) return null;
  const hint = 'or call with an account of your own';
  if (required)
    return invalidRequest(`${required.param} ${required.why}, ${hint}.`, required.param);
  // Gemini takes the addresses of files that it keeps, and opens them by the key of the request.
  const host = hostOf(provider.baseUrl);
  const isProviderAddress = ({ url }: AddressInput) => !/^data:/i.test(url) && hostOf(url) === host;
  const reference = addresses.find(isProviderAddress) ?? images.find(isProviderAddress);
  if (!reference) return null;
  const why = 'leads into the account of the provider: send the content itself';
  return invalidRequest(`${reference.param} ${why}, ${hint}.`, reference.param);
}

function hostOf(address: string): string | undefined {
  return URL.parse(address)?.host;
}

/** The offers whose account may serve the whole request; the error names the field if none may. */
export function entitledOffers<O extends RoutedOffer>(
  offers: readonly O[],
  request: AccountReferences,
): readonly O[] {
  const { ownAccount, addresses, images } = request;
  if (!ownAccount && !addresses?.length && !images?.length) return offers;
  return withoutIncompatible((offer) => accountIncompatibility(offer, request), offers);
}

/** The offers that take every field as it is; the error names the field if none of them does. */
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
    const why = incompatibilityOf(offer);
    if (why === null) compatible.push(offer);
    else incompatibility ??= why;
  }
  if (incompatibility && compatible.length === 0) throw incompatibility;
  return compatible;
}

/** Used where the catalogue names no limit: characters for first-party style, else bytes. */
const defaultCharactersMax = 4_096;
const defaultBytesMax = 1_000;

export function textLimitOf(terms: SpeechSettings = {}): TextLimit {
  const { style, input_characters_max: characters, input_bytes_max: bytes } = terms;
  const isCounted = characters !== undefined || (bytes === undefined && style === 'first_party');
  return isCounted
    ? { unit: 'characters', max: characters ?? defaultCharactersMax }
    : { unit: 'bytes', max: bytes ?? defaultBytesMax };
}
