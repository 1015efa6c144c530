/** Routing fields, which a request on any endpoint uses to choose models and providers. */
import { type Static, type TObject, Type } from 'typebox';
import { chainModelsMax } from '../../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import {
  noPreferences,
  type RequestInfo,
  type RoutePreferences,
  sortKeys,
} from '../../../core/request-info.ts';
import { oneOf, optional } from '../../../core/schema.ts';
import { storedContentOutsideContainer, urlsIn } from './external-references.ts';
import { withoutSuffix } from './search-options.ts';

const nameList = Type.Array(Type.String(), { maxItems: 100 });
const price = Type.Union([
  Type.Number({ minimum: 0 }),
  Type.String({ pattern: '^\\d+(\\.\\d+)?$', expected: 'a price in dollars' }),
]);

/** The client's provider preferences. */
const preferencesSchema = Type.Object({
  order: optional(nameList),
  only: optional(nameList),
  ignore: optional(nameList),
  allow_fallbacks: optional(Type.Boolean()),
  sort: optional(oneOf(...sortKeys)),
  max_price: optional(Type.Object({ prompt: optional(price), completion: optional(price) })),
  require_parameters: optional(Type.Boolean()),
  lossless: optional(Type.Boolean()),
});

const alias = Type.String({ minLength: 1, maxLength: 200 });

/** A string that a client uses to identify its end user or its prompt. */
export const label = optional(Type.String({ maxLength: 1000 }));

export const routingFields = {
  model: optional(alias),
  // `readModels` applies a lower limit, which ignores duplicates.
  models: optional(Type.Array(alias, { maxItems: 100 })),
  provider: optional(preferencesSchema),
  route: optional(oneOf('fallback', 'sort')),
};

type Routing = Static<TObject<typeof routingFields>>;

/** Returns the aliases to try, in order. */
export function readModels({ model, models }: Routing): readonly string[] {
  if (model && !models) return [withoutSuffix(model)];
  const named = [...(model ? [model] : []), ...(models ?? [])];
  const aliases = [...new Set(named.map(withoutSuffix))];
  if (aliases.length === 0) throw noModel();
  if (aliases.length > chainModelsMax) {
    const found = `The request lists ${aliases.length} models in "model" and "models"`;
    const message = `${found}; at most ${chainModelsMax} are allowed.`;
    throw invalidRequest(message, 'models');
  }
  return aliases;
}

export function noModel(): GatewayError {
  return invalidRequest('model is required: an alias such as "<brand>/<model>".', 'model');
}

export function readPreferences(body: Routing): RoutePreferences {
  if (!body.provider && !body.route) return noPreferences;
  const provider = body.provider ?? {};
  return {
    order: provider.order ?? [],
    // An empty list means unset, not that no provider is allowed.
    only: provider.only?.length ? provider.only : null,
    ignore: provider.ignore ?? [],
    allowFallbacks: provider.allow_fallbacks ?? true,
    sort: provider.sort ?? null,
    route: body.route ?? 'fallback',
    maxPrice: {
      prompt: readPrice(provider.max_price?.prompt),
      completion: readPrice(provider.max_price?.completion),
    },
    requireParameters: provider.require_parameters ?? false,
    lossless: provider.lossless ?? false,
  };
}

function readPrice(price: number | string | null | undefined): number | null {
  return price === null || price === undefined ? null : Number(price);
}

/** Returns the summary of a request that is never streamed. */
export function nonStreamingRequest(
  operationName: RequestInfo['operationName'],
  body: Routing & { readonly user?: string | null },
  extra: object,
): RequestInfo {
  return {
    operationName,
    models: readModels(body),
    preferences: readPreferences(body),
    stream: false,
    parameters: Object.keys(extra),
    user: body.user ?? null,
    urls: urlsIn(extra, ''),
    ownAccount: storedContentOutsideContainer(extra, ''),
  };
}
