import type { Model, Provider } from '../config/config.ts';
import type { AddressInput, Ask, ChatAsk } from '../core/ask.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import { readDataUrlImageSize } from '../core/media/image-size.ts';

/** Why a model cannot serve a chat request, in words that follow its name; null when it can. */
export function chatMisfit(model: Model, { needs }: ChatAsk): string | null {
  if (!isChatModel(model)) return 'is not a chat model';
  if (needs.tools && !model.features.includes('tools')) return 'does not support tools';
  if (needs.json && !supportsJson(model)) return 'does not support structured JSON output';
  if (needs.images && !model.input_modalities.includes('image')) return 'does not accept images';
  if (needs.audio && !model.input_modalities.includes('audio')) return 'does not accept audio';
  if (needs.files && !model.input_modalities.includes('file')) return 'does not accept files';
  return null;
}

const special: ReadonlySet<string> = new Set(['embeddings', 'speech', 'transcription']);

type Talent = Pick<Model, 'features' | 'output_modalities'>;

export function isChatModel({ features, output_modalities: output }: Talent): boolean {
  for (const feature of features) if (special.has(feature)) return false;
  return output.includes('text');
}

/** Whether a model can replace another: both chat, or both have some other feature in common. */
export function isLike(model: Model, other: Model): boolean {
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
export function imageMisfit(model: Model, { images }: ChatAsk): GatewayError | null {
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
function budgetMisfit({ id, thinking }: Model, { needs }: ChatAsk): GatewayError | null {
  if (!needs.thinkingBudget || thinking !== 'adaptive') return null;
  const instead = 'use reasoning.effort instead of reasoning.budget_tokens';
  return invalidRequest(`${id} thinks adaptively: ${instead}.`, 'reasoning.budget_tokens');
}

interface Fitted {
  readonly model: Model;
  readonly provider: Pick<Provider, 'baseUrl'>;
  readonly own: object | null;
}

/** The parts of a request that may refer to content in a provider's account. */
type Leading = Pick<Ask, 'ownAccount' | 'addresses' | 'images'>;

/** Tenants share the operator's accounts, so no request may reach the content of one of those. */
function accountMisfit(
  { own, provider }: Fitted,
  { ownAccount: need, addresses = [], images = [] }: Leading,
): GatewayError | null {
  if (own) return null;
  const instead = 'or call with an account of your own';
  if (need) return invalidRequest(`${need.param} ${need.why}, ${instead}.`, need.param);
  // Gemini takes the addresses of files that it keeps, and opens them by the key of the request.
  const host = hostOf(provider.baseUrl);
  const isInside = ({ url }: AddressInput) => !/^data:/i.test(url) && hostOf(url) === host;
  const inside = addresses.find(isInside) ?? images.find(isInside);
  if (!inside) return null;
  const why = 'leads into the account of the provider: send the content itself';
  return invalidRequest(`${inside.param} ${why}, ${instead}.`, inside.param);
}

function hostOf(address: string): string | undefined {
  return URL.parse(address)?.host;
}

/** The offers whose account may serve the whole request; the error names the field if none may. */
export function keepEntitled<O extends Fitted>(offers: readonly O[], ask: Leading): readonly O[] {
  const { ownAccount, addresses, images } = ask;
  if (!ownAccount && !addresses?.length && !images?.length) return offers;
  return keepWithout((offer) => accountMisfit(offer, ask), offers);
}

/** The offers that take every field as it is; the error names the field if none of them does. */
export function keepFitting<O extends Fitted>(offers: readonly O[], ask: ChatAsk): readonly O[] {
  if (ask.images.length === 0 && !ask.needs.thinkingBudget) return offers;
  return keepWithout(({ model }) => budgetMisfit(model, ask) ?? imageMisfit(model, ask), offers);
}

function keepWithout<O>(
  misfitAt: (offer: O) => GatewayError | null,
  offers: readonly O[],
): readonly O[] {
  const fitting: O[] = [];
  let misfit: GatewayError | null = null;
  for (const offer of offers) {
    const why = misfitAt(offer);
    if (why === null) fitting.push(offer);
    else misfit ??= why;
  }
  if (misfit && fitting.length === 0) throw misfit;
  return fitting;
}
