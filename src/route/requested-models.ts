import { createHash } from 'node:crypto';
import type { Caller } from '../core/caller.ts';
import type { ModelNeeds, RequestInfo } from '../core/request-info.ts';
import type { AliasRequest } from './aliases.ts';
import type { CallableModels, Catalog, CatalogOf } from './catalog.ts';
import { sessionNameIn } from './stickiness.ts';

// Finds the models that a request names by an alias, or without their brand.

/**
 * Replaces the requested names by the IDs of models. Throws 400 for a name that could mean several
 * models.
 */
export function resolveModels(
  call: RequestedBy,
  request: RequestedContent & Pick<RequestInfo, 'models' | 'granted'>,
  { catalog, catalogOf }: { readonly catalog: Catalog; readonly catalogOf: CatalogOf },
): void | Promise<void> {
  // Nearly all requests have IDs, so don't load the tenant's catalog for them.
  if (request.models.every((name) => catalog.isId(name))) return;
  const resolveIn = (callable: CallableModels) => {
    const aliasRequest = aliasRequestOf(call, request);
    const names = request.models;
    request.models = callable.resolveAll(names, aliasRequest);
    const granted = callable.grantedBy(names, aliasRequest);
    if (granted.length > 0) request.granted = granted;
  };
  // Names don't depend on prices.
  const callable = catalogOf(call.caller, Date.now());
  return callable instanceof Promise ? callable.then(resolveIn) : resolveIn(callable);
}

/** What decides which models a requested name stands for. */
export interface RequestedBy {
  readonly caller: Caller;
  readonly requestId: string;
  readonly replayOptions: { readonly idempotencyKey: string | null };
  clientHeader(name: string): string | null;
}

/** `needs` and `inputBytes` are those of a chat. */
type RequestedContent = Pick<RequestInfo, 'images' | 'user'> & {
  readonly promptCacheKey?: string | null;
  readonly needs?: Pick<ModelNeeds, 'tools'>;
  readonly inputBytes?: number;
};

/** The requests of one session, and repetitions of one request, are for the same model. */
export function aliasRequestOf(call: RequestedBy, request: RequestedContent): AliasRequest {
  const { caller, requestId, replayOptions } = call;
  const session = sessionNameIn(request, call.clientHeader('x-session-id'));
  const seed = session ?? replayOptions.idempotencyKey ?? requestId;
  return {
    caller,
    hasImages: (request.images?.length ?? 0) > 0,
    hasTools: request.needs?.tools === true,
    inputTokens: Math.ceil((request.inputBytes ?? 0) / bytesPerToken),
    header: (name) => call.clientHeader(name),
    random: (purpose) => fractionOf(`${caller.tenantId} ${seed} ${purpose}`),
  };
}

const bytesPerToken = 4;

function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32;
}

/** A request of which only the caller is known, such as one that lists models. */
export function anyRequestOf(caller: Caller): AliasRequest {
  const unknown = { hasImages: false, hasTools: false, inputTokens: 0 };
  return { caller, ...unknown, header: () => null, random: () => 0 };
}
