import type { Model } from '../../config/config.ts';
import {
  type AnthropicModelListObject,
  type ModelEndpointObject,
  type ModelListObject,
  type ModelObject,
  modelDocs,
  modelPageCap,
  modelPageLimitSchema,
  type ServedModelObject,
} from '../../contract/models.ts';
import { putBounded } from '../../core/bounded-map.ts';
import { type Caller, mayUseModel } from '../../core/caller.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { definedFields } from '../../core/json.ts';
import { perToken } from '../../money/price/price-list.ts';
import { formatUsd } from '../../money/price/usd.ts';
import type { CallableModels, CatalogOf, Offer } from '../../route/catalog.ts';
import type { Health } from '../../route/health.ts';
import { readCapped } from '../query.ts';
import { json, jsonText } from '../reply.ts';
import type { Exchange } from '../routes.ts';
import { type Route, routesFor } from '../routes.ts';

/** SDKs require a number even if the release date is unknown. */
const unknownCreated = 0;

interface ModelDeps {
  readonly catalogOf: CatalogOf;
  readonly health: Pick<Health, 'state' | 'observed'>;
  /** Returns the request parameters that at least one offer of the model supports. */
  supportedParameters(model: Model, offers: readonly Offer[]): readonly string[];
  /** Returns the error for a model that no provider serves. */
  unknownModel(alias: string, caller: Caller, catalog: CallableModels): GatewayError;
}

const anyKey = routesFor({ access: 'either' });

export function modelRoutes(deps: ModelDeps): Route[] {
  const lists = new ModelLists();
  return [
    anyKey.get('/v1/models', modelDocs.list, (exchange, caller) =>
      listModels(exchange, caller, deps, lists),
    ),
    anyKey.get('/v1/models/:id{.+}', modelDocs.show, (exchange, caller) =>
      showModel(exchange, caller, deps),
    ),
    anyKey.get('/v1/customer/models', modelDocs.endpoints, (exchange, caller) =>
      listEndpoints(exchange, caller, deps),
    ),
  ];
}

/** Returns the models that this key can call now. */
function callableModels(catalog: CallableModels, caller: Caller): readonly Model[] {
  return catalog.callable().filter(({ id }) => mayUseModel(caller, id));
}

/** A model as a list shows it: under its ID, or under an alias of the operator. */
interface ListedModel {
  readonly model: Model;
  readonly offers: readonly Offer[];
}

/** Returns the names that this key can send, aliases last. An alias hides the model of its name. */
function listedModels(catalog: CallableModels, caller: Caller): readonly ListedModel[] {
  const aliases = catalog.aliases.listFor(caller).flatMap(({ name, description, models }) => {
    const target = models.find((id) => catalog.offers(id).length > 0);
    const model = target === undefined ? undefined : catalog.model(target);
    if (!model) return [];
    const shown = {
      ...model,
      id: name,
      name,
      description: description || (model.description ?? ''),
    };
    return [{ model: shown, offers: catalog.offers(model.id) }];
  });
  const hidden = new Set(aliases.map(({ model }) => model.id));
  const models = callableModels(catalog, caller).filter(({ id }) => !hidden.has(id));
  return [...models.map((model) => ({ model, offers: catalog.offers(model.id) })), ...aliases];
}

/** Allow-lists per catalog. A tenant's keys usually share a few. */
const allowListsMax = 100;

/**
 * The model lists as text. A list takes milliseconds to build and changes only with the catalog,
 * which a reload or a change of the tenant's provider keys replaces.
 */
class ModelLists {
  readonly #texts = new WeakMap<CallableModels, Map<string, string>>();

  textFor(catalog: CallableModels, caller: Caller, build: () => object): string {
    const texts = this.#texts.get(catalog) ?? new Map<string, string>();
    this.#texts.set(catalog, texts);
    // An alias may stand for other models with other keys.
    const aliases = catalog.aliases.listFor(caller).map(({ name, models }) => [name, models]);
    const allowList = JSON.stringify([caller.models, aliases]);
    const known = texts.get(allowList);
    if (known !== undefined) return known;
    const text = JSON.stringify(build());
    putBounded(texts, allowList, text, allowListsMax);
    return text;
  }
}

async function listModels(
  exchange: Exchange,
  caller: Caller,
  deps: ModelDeps,
  lists: ModelLists,
): Promise<Response> {
  const catalog = await deps.catalogOf(caller, Date.now());
  const objectsOf = (listed: readonly ListedModel[]) =>
    listed.map(({ model, offers }) => modelObject(model, offers, deps));
  // Checked for every client, as the OpenAPI document says.
  const limit = readCapped(exchange.query, 'limit', modelPageLimitSchema, modelPageCap);
  if (exchange.isAnthropicClient) {
    const page = pageOf(listedModels(catalog, caller), limit, exchange.query);
    const data = objectsOf(page.models);
    const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    const list: AnthropicModelListObject = { data, has_more: page.hasMore, ...ids };
    return json(exchange, list);
  }
  const buildList = (): ModelListObject => {
    const data = objectsOf(listedModels(catalog, caller));
    return { object: 'list', data, total_count: data.length, links: { next: null } };
  };
  return jsonText(exchange, lists.textFor(catalog, caller, buildList));
}

/** Returns a page of the list, as clients of the Anthropic API request it. */
function pageOf(models: readonly ListedModel[], limit: number, query: URLSearchParams) {
  const indexOf = (name: 'after_id' | 'before_id'): number | undefined => {
    const id = query.get(name);
    if (id === null) return undefined;
    const index = models.findIndex(({ model }) => model.id === id);
    if (index === -1) throw invalidRequest(`${name} must be the ID of a model in the list.`, name);
    return index;
  };
  const [after, before] = [indexOf('after_id'), indexOf('before_id')];
  if (after !== undefined && before !== undefined)
    throw invalidRequest('before_id must be omitted if after_id is set.', 'before_id');
  if (before !== undefined) {
    const start = Math.max(0, before - limit);
    return { models: models.slice(start, before), hasMore: start > 0 };
  }
  const start = after === undefined ? 0 : after + 1;
  return { models: models.slice(start, start + limit), hasMore: start + limit < models.length };
}

async function showModel(exchange: Exchange, caller: Caller, deps: ModelDeps): Promise<Response> {
  const name = exchange.param('id');
  const catalog = await deps.catalogOf(caller, Date.now());
  const alias = catalog.aliases.has(name)
    ? listedModels(catalog, caller).find(({ model }) => model.id === name)
    : undefined;
  if (alias) return json(exchange, modelObject(alias.model, alias.offers, deps));
  const id = catalog.resolve(name, caller);
  const [model, offers] = [catalog.model(id), catalog.offers(id)];
  if (!model || offers.length === 0) throw deps.unknownModel(id, caller, catalog);
  // The list omits this model, so don't reveal here that it exists.
  if (!mayUseModel(caller, id)) throw notFound(`There is no model "${name}".`, 'model');
  return json(exchange, modelObject(model, offers, deps));
}

/** Lists the models that this key can call, with their endpoints. */
async function listEndpoints(exchange: Exchange, caller: Caller, deps: ModelDeps) {
  const catalog = await deps.catalogOf(caller, Date.now());
  const data: ServedModelObject[] = callableModels(catalog, caller).map(({ id }) => ({
    id,
    endpoints: catalog.offers(id).map((offer) => endpointObject(offer, deps)),
  }));
  return json(exchange, { data });
}

/** Omits the provider's own name for the model, which only operators see. */
function endpointObject(offer: Offer, { health }: ModelDeps): ModelEndpointObject {
  const { long_prompts, ...pricing } = offer.pricing;
  return {
    provider: offer.provider.name,
    priority: offer.priority,
    weight: offer.weight,
    traffic_mode: offer.ownAccount ? 'byok' : 'shared',
    pricing,
    ...definedFields({ long_prompts }),
    circuit: health.state(offer),
    ...healthFields(offer, health),
  };
}

/** Returns the measurements that customers and operators see. */
export function healthFields(offer: Offer, health: Pick<Health, 'observed'>) {
  const { firstByteMs, tokensPerSecond } = health.observed(offer);
  return { first_byte_ms: firstByteMs, tokens_per_second: tokensPerSecond };
}

function modelObject(
  model: Model,
  offers: readonly Offer[],
  { supportedParameters }: ModelDeps,
): ModelObject {
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
    ...definedFields({ long_prompts: longPrompts }),
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
    // OpenRouter's clients require these.
    canonical_slug: model.id,
    default_parameters: null,
    hugging_face_id: null,
    links: { details: `/api/v1/models/${model.id}` },
    // Anthropic's names for some of the fields above.
    type: 'model',
    display_name: model.name,
    created_at: new Date((model.created ?? unknownCreated) * 1000).toISOString(),
    capabilities: null,
    lifecycle: 'active',
    line: null,
    deprecated_at: null,
    retires_at: null,
    max_input_tokens: contextLength,
    max_tokens: outputMax,
  };
}
