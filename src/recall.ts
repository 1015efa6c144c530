import { readDirectives } from './cache/directives.ts';
import { fingerprint } from './cache/fingerprint.ts';
import type { Idempotency } from './cache/idempotency.ts';
import type { ResponseCache } from './cache/response-cache.ts';
import {
  type Call,
  droppedHeader,
  type Errand,
  identityOf,
  type Recalled,
  type Sameness,
} from './call.ts';
import { cachedLengthMax, idempotentLengthMax } from './core/bounds.ts';
import { type CacheMode, mayUseModel } from './core/caller.ts';
import type { Recording } from './core/recording.ts';
import { Tape } from './upstream/tape.ts';

/** Whether a request was answered before: by its `Idempotency-Key`, or by what it asks. */

interface RecallParts {
  readonly cache: ResponseCache;
  readonly idempotency: Idempotency;
  /** For keys without a mode of their own. */
  readonly cacheMode: CacheMode;
  /**
   * Whether the provider still offers the model: cached answers of removed offers are not given.
   */
  isOffered(model: string, provider: string): boolean;
}

/** An errand whose answers may be given again. */
type Repeatable = Errand & Required<Pick<Errand, 'sameness' | 'replay'>>;

/** An earlier answer that will do, if there is one; else has the new one recorded where wanted. */
export function recall(
  call: Call,
  errand: Errand,
  parts: RecallParts,
): Promise<Recalled | undefined> | undefined {
  if (!isRepeatable(errand)) return undefined;
  const { idempotencyKey } = call.wishes;
  return idempotencyKey === null
    ? recallSame(call, errand, parts)
    : recallNamed(call, errand, parts.idempotency, idempotencyKey);
}

function isRepeatable(errand: Errand): errand is Repeatable {
  return errand.sameness !== undefined && errand.replay !== undefined;
}

/** Looks for an answer to the same question. */
function recallSame(
  call: Call,
  errand: Repeatable,
  parts: RecallParts,
): Promise<Recalled | undefined> | undefined {
  const mode = call.caller.cacheMode ?? parts.cacheMode;
  // Audio would fill any cache: it is kept for an Idempotency-Key only.
  if (mode === 'off' || errand.ask.operation === 'speech') return undefined;
  const sameness = errand.sameness();
  if (mode === 'auto' && !sameness.isRepeatable) return undefined;
  return recallCached(call, errand, parts, fingerprintOf(call, errand, sameness));
}

async function recallCached(
  call: Call,
  errand: Repeatable,
  { cache, isOffered }: RecallParts,
  name: string,
): Promise<Recalled | undefined> {
  const directives = readDirectives(call.wishes.cacheControl);
  const replay = (recording: Recording) =>
    isOffered(recording.model, recording.provider) ? replayed(recording, errand, call) : undefined;
  const recalled = await cache.recall(name, directives, call.client, replay);
  if ('found' in recalled) return markHit(call, recalled.found);
  const { duty } = recalled;
  if (duty) call.memory = { tape: new Tape(cachedLengthMax, true), duty };
  return undefined;
}

/** Looks for the answer under the same `Idempotency-Key`. */
async function recallNamed(
  call: Call,
  errand: Repeatable,
  idempotency: Idempotency,
  key: string,
): Promise<Recalled | undefined> {
  const { caller, requestId, headers } = call;
  // A key that may use none of the models is refused later; it learns nothing of other requests.
  if (!errand.ask.models.some((alias) => mayUseModel(caller, alias))) return undefined;
  const name = fingerprintOf(call, errand, errand.sameness());
  const claim = { tenantId: caller.tenantId, key, fingerprint: name, requestId };
  const replay = (recording: Recording) => replayedAsFirst(recording, errand, call);
  const recalled = await idempotency.recall(claim, call.client, replay);
  if ('found' in recalled) {
    headers['idempotent-replayed'] = 'true';
    const { first } = recalled.found;
    if (first) headers['x-request-id'] = headers['request-id'] = first.requestId;
    return markHit(call, recalled.found);
  }
  call.memory = { tape: new Tape(idempotentLengthMax), duty: recalled.duty };
  return undefined;
}

/**
 * Includes the tenant, so that no answer ever crosses to another, and the models that the key may
 * use, because they decide which model answers.
 */
function fingerprintOf({ caller }: Call, { ask }: Errand, sameness: Sameness): string {
  const { models, preferences, operation } = ask;
  const wording = sameness.wording();
  return fingerprint([caller.tenantId, operation, caller.models, models, preferences, wording]);
}

/** A recording as the answer to a request; undefined when the request needs another form. */
function replayed(
  recording: Recording,
  errand: Repeatable,
  request: Pick<Call, 'requestId' | 'receivedAt'>,
): Recalled | undefined {
  const { model, provider } = recording;
  const relay = errand.replay(recording, { ...identityOf(request, model), provider });
  return relay && { recording, relay };
}

/**
 * Like `replayed`, with the id and the price of the first request: a client that lost the first
 * answer learns from the repetition what was charged, and can find its receipt.
 */
function replayedAsFirst(
  recording: Recording,
  errand: Repeatable,
  call: Call,
): Recalled | undefined {
  const { first } = recording;
  const recalled = replayed(recording, errand, first ?? call);
  return recalled && first ? { ...recalled, first } : recalled;
}

function markHit({ headers }: Call, found: Recalled): Recalled {
  const { model, dropped } = found.recording;
  headers['x-cache'] = 'HIT';
  headers['x-cache-model'] = model;
  if (dropped) headers[droppedHeader] = dropped;
  return found;
}
