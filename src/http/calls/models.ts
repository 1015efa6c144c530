import type { Model } from '../../config/config.ts';
import { type Caller, mayUseModel } from '../../core/caller.ts';
import { type GatewayError, notFound } from '../../core/errors.ts';
import { formatUsd } from '../../core/money.ts';
import { perToken } from '../../core/prices.ts';
import type { CallableModels, CatalogueOf, Offer } from '../../route/catalogue.ts';
import type { Health } from '../../route/health.ts';
import type { Exchange } from '../exchange.ts';
import { modelDocs } from '../openapi/models.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

/** For models without a known release date; SDKs want a number. */
const unknownCreated = 0;

interface ModelParts {
  readonly catalogueOf: CatalogueOf;
  readonly health: Pick<Health, 'state' | 'observed'>;
  /** Parameters that an upstream of a model understands. */
  supportedParameters(model: Model, offers: readonly Offer[]): readonly string[];
  /** The error for calls of a model that nobody serves. */
  unknownModel(alias: string, caller: Caller, catalogue: CallableModels): GatewayError;
}

const either = routesFor({ access: 'either' });

export function modelRoutes(parts: ModelParts): Route[] {
  return [
    either.get('/v1/models', modelDocs.list, (exchange, caller) =>
      listModels(exchange, caller, parts),
    ),
    either.get('/v1/models/:id{.+}', modelDocs.show, (exchange, caller) =>
      showModel(exchange, caller, parts),
    ),
    either.get('/v1/customer/models', modelDocs.endpoints, (exchange, caller) =>
      listEndpoints(exchange, caller, parts),
    ),
  ];
}

/** Only models that this key could call right now. */
function callable(catalogue: CallableModels, caller: Caller): readonly Model[] {
  return catalogue.live().filter(({ id }) => mayUseModel(caller, id));
}

async function listModels(
  exchange: Exchange,
  caller: Caller,
  parts: ModelParts,
): Promise<Response> {
  const catalogue = await parts.catalogueOf(caller.tenantId);
  const models = callable(catalogue, caller);
  const data = models.map((model) => modelRecord(model, catalogue.offers(model.id), parts));
  if (exchange.isOfAnthropicClient) {
    const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    return json(exchange, { data, has_more: false, ...ids });
  }
  return json(exchange, { object: 'list', data });
}

async function showModel(exchange: Exchange, caller: Caller, parts: ModelParts): Promise<Response> {
  const id = exchange.param('id');
  const catalogue = await parts.catalogueOf(caller.tenantId);
  const [model, offers] = [catalogue.model(id), catalogue.offers(id)];
  if (!model || offers.length === 0) throw parts.unknownModel(id, caller, catalogue);
  // The list leaves this model out, so the key must not learn here that it exists.
  if (!mayUseModel(caller, id)) throw notFound(`There is no model "${id}".`, 'model');
  return json(exchange, modelRecord(model, offers, parts));
}

/** Each model that this key can call, with every endpoint that serves it. */
async function listEndpoints(exchange: Exchange, caller: Caller, parts: ModelParts) {
  const catalogue = await parts.catalogueOf(caller.tenantId);
  const data = callable(catalogue, caller).map(({ id }) => ({
    id,
    endpoints: catalogue.offers(id).map((offer) => endpointObject(offer, parts)),
  }));
  return json(exchange, { data });
}

/** Never shows what the provider calls the model. */
function endpointObject(offer: Offer, { health }: ModelParts) {
  const { firstByteMs, tokensPerSecond } = health.observed(offer);
  const { long_prompts, ...pricing } = offer.pricing;
  return {
    provider: offer.provider.name,
    priority: offer.priority,
    traffic_mode: offer.own ? 'byok' : 'shared',
    pricing,
    long_prompts,
    circuit: health.state(offer),
    first_byte_ms: firstByteMs,
    tokens_per_second: tokensPerSecond,
  };
}

function modelRecord(model: Model, offers: readonly Offer[], { supportedParameters }: ModelParts) {
  const [brand = ''] = model.id.split('/');
  const prices = offers[0]?.prices;
  const longPrompts = prices?.longPrompts?.map((step) => ({
    above_tokens: step.aboveTokens,
    prompt: perToken(step.prices.prompt),
    completion: perToken(step.prices.completion),
  }));
  const contextLength = model.context_length ?? 0;
  const outputMax = model.max_completion_tokens ?? contextLength;
  return {
    id: model.id,
    object: 'model',
    created: model.created ?? unknownCreated,
    owned_by: brand,
    name: model.name,
    description: model.description ?? '',
    context_length: contextLength,
    max_output_tokens: outputMax,
    pricing: {
      prompt: perToken(prices?.prompt ?? 0n),
      completion: perToken(prices?.completion ?? 0n),
      request: formatUsd(prices?.request ?? 0n),
      image: formatUsd(prices?.image ?? 0n),
    },
    long_prompts: longPrompts,
    architecture: {
      modality: `${model.input_modalities.join('+')}->${model.output_modalities.join('+')}`,
      input_modalities: model.input_modalities,
      output_modalities: model.output_modalities,
      tokenizer: model.tokenizer ?? 'Other',
      features: model.features,
    },
    top_provider: {
      context_length: contextLength,
      max_completion_tokens: outputMax,
      is_moderated: false,
    },
    supported_parameters: supportedParameters(model, offers),
    per_request_limits: null,
    // Anthropic's clients look for these beside the fields above.
    type: 'model',
    display_name: model.name,
    created_at: new Date((model.created ?? unknownCreated) * 1000).toISOString(),
    max_input_tokens: contextLength,
    max_tokens: outputMax,
  };
}
