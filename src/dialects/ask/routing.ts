/** How a request chooses its models and providers; the same on every endpoint. */
import { type Static, type TObject, Type } from 'typebox';
import { type Ask, noPreferences, type RoutePreferences, sortKeys } from '../../core/ask.ts';
import { chainModelsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import { keptBesideContainer } from './account/own-account.ts';
import { addressesIn } from './content/addresses.ts';
import { withoutSuffix } from './search-wish.ts';

const names = Type.Array(Type.String(), { maxItems: 100 });
const price = Type.Union([
  Type.Number({ minimum: 0 }),
  Type.String({ pattern: '^\\d+(\\.\\d+)?$', expected: 'a price in dollars' }),
]);

/** The client's wishes about providers. */
const preferencesSchema = Type.Object({
  order: optional(names),
  only: optional(names),
  ignore: optional(names),
  allow_fallbacks: optional(Type.Boolean()),
  sort: optional(oneOf(...sortKeys)),
  max_price: optional(Type.Object({ prompt: optional(price), completion: optional(price) })),
  require_parameters: optional(Type.Boolean()),
});

const alias = Type.String({ minLength: 1, maxLength: 200 });

/** A name that a client gives its end user, or its prompt. */
export const label = optional(Type.String({ maxLength: 1000 }));

export const routingFields = {
  model: optional(alias),
  // The chain has a lower limit of its own, for which a repeated alias does not count.
  models: optional(Type.Array(alias, { maxItems: 100 })),
  provider: optional(preferencesSchema),
  route: optional(oneOf('fallback', 'sort')),
};

type Routing = Static<TObject<typeof routingFields>>;

/** The aliases to try, in order. */
export function readChain({ model, models }: Routing): readonly string[] {
  if (model && !models) return [withoutSuffix(model)];
  const named = [...(model ? [model] : []), ...(models ?? [])];
  const chain = [...new Set(named.map(withoutSuffix))];
  if (chain.length === 0) throw noModel();
  if (chain.length > chainModelsMax) {
    const found = `model and models name ${chain.length} models`;
    const message = `${found}; at most ${chainModelsMax} are allowed.`;
    throw invalidRequest(message, 'models');
  }
  return chain;
}

export function noModel(): GatewayError {
  return invalidRequest('model is required: an alias such as "<brand>/<model>".', 'model');
}

export function readPreferences(body: Routing): RoutePreferences {
  if (!body.provider && !body.route) return noPreferences;
  const wishes = body.provider ?? {};
  return {
    order: wishes.order ?? [],
    // An empty list was not filled in; it does not mean that no provider is wanted.
    only: wishes.only?.length ? wishes.only : null,
    ignore: wishes.ignore ?? [],
    allowFallbacks: wishes.allow_fallbacks ?? true,
    sort: wishes.sort ?? null,
    route: body.route ?? 'fallback',
    maxPrice: {
      prompt: readPrice(wishes.max_price?.prompt),
      completion: readPrice(wishes.max_price?.completion),
    },
    requireParameters: wishes.require_parameters ?? false,
  };
}

function readPrice(price: number | string | null | undefined): number | null {
  return price === null || price === undefined ? null : Number(price);
}

/** The ask of a request that is never streamed. */
export function wholeAsk(
  operation: Ask['operation'],
  body: Routing & { readonly user?: string | null },
  more: object,
): Ask {
  return {
    operation,
    models: readChain(body),
    preferences: readPreferences(body),
    stream: false,
    parameters: Object.keys(more),
    user: body.user ?? null,
    addresses: addressesIn(more, ''),
    ownAccount: keptBesideContainer(more, ''),
  };
}
