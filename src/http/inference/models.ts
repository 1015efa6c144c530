import type { Model } from '../../config/config.ts';
import { modelDocs } from '../../contract/models.ts';
import { type Caller, mayUseModel } from '../../core/caller.ts';
import { type GatewayError, notFound } from '../../core/errors.ts';
import { perToken } from '../../money/price/price-list.ts';
import { formatUsd } from '../../money/price/usd.ts';
import type { CallableModels, CatalogOf, Offer } from '../../route/catalog.ts';
import type { Health } from '../../route/health.ts';
import { json } from '../reply.ts';
import type { Exchange } from '../routes.ts';
import { type Route, routesFor } from '../routes.ts';

/** For models without a known release date; SDKs want a number. */
const unknownCreated = 0;

interface ModelDeps {
  readonly catalogOf: CatalogOf;
  readonly health: Pick<Health, 'state' | 'observed'>;
  /** Parameters that an upstream of a model understands. */
  supportedParameters(model: Model, offers: readonly Offer[]): readonly string[];
  /** The error for calls of a model that nobody serves. */
  unknownModel(alias: string, caller: Caller, catalog: CallableModels): GatewayError;
}

const either = routesFor({ access: 'either' });

export function modelRoutes(deps: ModelDeps): Route[] {
  return [
    either.get('/v1/models', modelDocs.list, (exchange, caller) =>
      listModels(exchange, caller, deps),
    ),
    either.get('/v1/models/:id{.+}', modelDocs.show, (exchange, caller) =>
      showModel(exchange, caller, deps),
    ),
    either.get('/v1/customer/models', modelDocs.endpoints, (exchange, caller) =>
      listEndpoints(exchange, caller, deps),
    ),
  ];
}

/** Only models that this key could call right now. */
function callableModels(catalog: CallableModels, caller: Caller): readonly Model[] {
  return catalog.callable().filter(({ id }) => mayUseModel(caller, id));
}

async function listModels(exchange: Exchange, caller: Caller, deps: ModelDeps): Promise<Response> {
  const catalog = await deps.catalogOf(caller.tenantId);
  const models = callableModels(catalog, caller);
  const data = models.map((model) => modelRecord(model, catalog.offers(model.id), deps));
  if (exchange.isAnthropicClient) {
    const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    return json(exchange, { data, has_more: false, ...ids });
  }
  return json(exchange, { object: 'list', data });
}

async function showModel(exchange: Exchange, caller: Caller, deps: ModelDeps): Promise<Response> {
  const id = exchange.param('id');
  const catalog = await deps.catalogOf(caller.tenantId);
  const [model, offers] = [catalog.model(id), catalog.offers(id)];
  if (!model || offers.length === 0) throw deps.unknownModel(id, caller, catalog);
  // The list leaves this model out, so the key must not learn here that it exists.
  if (!mayUseModel(caller, id)) throw notFound(`There is no model "${id}".`, 'model');
  return json(exchange, modelRecord(model, offers, deps));
}

/** Each model that this key can call, with every endpoint that serves it. */
async function listEndpoints(exchange: Exchange, caller: Caller, deps: ModelDeps) {
  const catalog = await deps.catalogOf(caller.tenantId);
  const data = callableModels(catalog, caller).map(({ id }) => ({
    id,
    endpoints: catalog.offers(id).map((offer) => endpointObject(offer, deps)),
  }));
  return json(exchange, { data });
}

/** Never shows what the provider calls the model. */
function endpointObject(offer: Offer, { health }: ModelDeps) {
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

function modelRecord(model: Model, offers: readonly Offer[], { supportedParameters }: ModelDeps) {
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
