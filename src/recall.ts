import type { Claim } from './cache/claim.ts';
import { readDirectives } from './cache/directives.ts';
import { fingerprint } from './cache/fingerprint.ts';
import type { Idempotency } from './cache/idempotency.ts';
import type { ResponseCache } from './cache/response-cache.ts';
import { type Call, type Errand, identityOf, type Recalled } from './call.ts';
import { cachedLengthMax, idempotentLengthMax } from './core/bounds.ts';
import { type CacheMode, mayUseModel } from './core/caller.ts';
import type { Recording } from './core/recording.ts';
import { Tape } from './upstream/tape.ts';

/** Whether a request was answered before: by its `Idempotency-Key`, or by what it asks. */

export interface RecallParts {
  readonly cache: ResponseCache;
  readonly idempotency: Idempotency;
  /** Of keys without a mode of their own. */
  readonly cacheMode: CacheMode;
}

type Use = (recording: Recording) => Recalled | undefined;

/** An answer that will do, if there is one; else remembers this one where that is wanted. */
export function recall(
  call: Call,
  errand: Errand,
  { cache, idempotency, cacheMode }: RecallParts,
): Promise<Recalled | undefined> | undefined {
  if (!errand.sameness || !errand.replay) return undefined;
  const { idempotencyKey } = call.wishes;
  // Whoever may use none of its models is told so, and nothing about requests of others.
  const isAllowed = (alias: string) => mayUseModel(call.caller, alias);
  if (idempotencyKey !== null && !errand.ask.models.some(isAllowed)) return undefined;
  // Audio goes out as it comes and fills any cache: it is kept for whoever names the request.
  if (errand.ask.operation === 'speech' && idempotencyKey === null) return undefined;
  const mode = call.caller.cacheMode ?? cacheMode;
  if (idempotencyKey === null && mode === 'off') return undefined;
  const sameness = errand.sameness();
  const isCached = mode === 'always' || (mode === 'auto' && sameness.isRepeatable);
  if (idempotencyKey === null && !isCached) return undefined;
  const name = nameOf(call, errand, sameness.wording());
  const use: Use = (recording) => {
    const { model, provider } = recording;
    const relay = errand.replay?.(recording, { ...identityOf(call, model), provider });
    return relay && { recording, relay };
  };
  if (idempotencyKey === null) return recallCached(call, name, cache, use);
  const { requestId, caller } = call;
  const { tenantId } = caller;
  const claim = { tenantId, key: idempotencyKey, fingerprint: name, requestId };
  return recallClaim(call, claim, idempotency, use);
}

/** The tenant first: no answer ever crosses to another. What a key may use decides answers too. */
function nameOf({ caller }: Call, { ask }: Errand, wording: unknown): string {
  const { models, preferences, operation } = ask;
  return fingerprint([caller.tenantId, operation, caller.models, models, preferences, wording]);
}

async function recallCached(
  call: Call,
  name: string,
  cache: ResponseCache,
  use: Use,
): Promise<Recalled | undefined> {
  const wish = readDirectives(call.wishes.cacheControl);
  const recalled = await cache.recall(name, wish, call.client, use);
  if ('found' in recalled) return toldAsHit(call, recalled.found);
  const { duty } = recalled;
  if (duty) call.memory = { tape: new Tape(cachedLengthMax), duty };
  return undefined;
}

async function recallClaim(
  call: Call,
  claim: Claim,
  idempotency: Idempotency,
  use: Use,
): Promise<Recalled | undefined> {
  const recalled = await idempotency.recall(claim, call.client, use);
  if ('found' in recalled) {
    call.headers['idempotent-replayed'] = 'true';
    return toldAsHit(call, recalled.found);
  }
  call.memory = { tape: new Tape(idempotentLengthMax), duty: recalled.duty };
  return undefined;
}

function toldAsHit({ headers }: Call, found: Recalled): Recalled {
  headers['x-cache'] = 'HIT';
  headers['x-cache-model'] = found.recording.model;
  return found;
}
