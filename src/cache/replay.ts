import {
  type CacheIdentity,
  type Call,
  droppedParamsHeader,
  identityOf,
  type Operation,
  type Replay,
} from '../call.ts';
import { cachedLengthMax, idempotentLengthMax } from '../core/bounds.ts';
import { type CacheMode, mayUseModel } from '../core/caller.ts';
import type { Recording } from '../core/recording.ts';
import { AnswerRecorder } from '../upstream/recorder.ts';
import { fingerprint } from './fingerprint.ts';
import type { Idempotency } from './idempotency.ts';
import type { ResponseCache } from './response-cache.ts';
import { readDirectives } from './response-cache.ts';

/** Whether a request was answered before: by its `Idempotency-Key`, or by what it asks. */

interface ReplayDeps {
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
type ReplayableOperation = Operation & Required<Pick<Operation, 'cacheIdentity' | 'replay'>>;

/** An earlier answer that will do, if there is one; else has the new one recorded where wanted. */
export function findReplay(
  call: Call,
  operation: Operation,
  deps: ReplayDeps,
): Promise<Replay | undefined> | undefined {
  if (!isReplayable(operation)) return undefined;
  const { idempotencyKey } = call.replayOptions;
  return idempotencyKey === null
    ? findIdentical(call, operation, deps)
    : findByIdempotencyKey(call, operation, deps.idempotency, idempotencyKey);
}

function isReplayable(operation: Operation): operation is ReplayableOperation {
  return operation.cacheIdentity !== undefined && operation.replay !== undefined;
}

/** Looks for an answer to the same question. */
function findIdentical(
  call: Call,
  operation: ReplayableOperation,
  deps: ReplayDeps,
): Promise<Replay | undefined> | undefined {
  const mode = call.caller.cacheMode ?? deps.cacheMode;
  // Audio would fill any cache: it is kept for an Idempotency-Key only.
  if (mode === 'off' || operation.request.operationName === 'speech') return undefined;
  const cacheIdentity = operation.cacheIdentity();
  if (mode === 'auto' && !cacheIdentity.isRepeatable) return undefined;
  return readCache(call, operation, deps, fingerprintOf(call, operation, cacheIdentity));
}

async function readCache(
  call: Call,
  operation: ReplayableOperation,
  { cache, isOffered }: ReplayDeps,
  name: string,
): Promise<Replay | undefined> {
  const directives = readDirectives(call.replayOptions.cacheControl);
  const replay = (recording: Recording) =>
    isOffered(recording.model, recording.provider)
      ? toReplay(recording, operation, call)
      : undefined;
  const result = await cache.lookUp(name, directives, call.client, replay);
  if ('found' in result) return markHit(call, result.found);
  const { inFlight } = result;
  if (inFlight)
    call.recordingSession = { recorder: new AnswerRecorder(cachedLengthMax, true), inFlight };
  return undefined;
}

/** Looks for the answer under the same `Idempotency-Key`. */
async function findByIdempotencyKey(
  call: Call,
  operation: ReplayableOperation,
  idempotency: Idempotency,
  key: string,
): Promise<Replay | undefined> {
  const { caller, requestId, headers } = call;
  // A key that may use none of the models is refused later; it learns nothing of other requests.
  if (!operation.request.models.some((alias) => mayUseModel(caller, alias))) return undefined;
  const name = fingerprintOf(call, operation, operation.cacheIdentity());
  const claim = { tenantId: caller.tenantId, key, fingerprint: name, requestId };
  const replay = (recording: Recording) => toFirstReplay(recording, operation, call);
  const result = await idempotency.lookUp(claim, call.client, replay);
  if ('found' in result) {
    headers['idempotent-replayed'] = 'true';
    const { first } = result.found;
    if (first) headers['x-request-id'] = headers['request-id'] = first.requestId;
    return markHit(call, result.found);
  }
  call.recordingSession = {
    recorder: new AnswerRecorder(idempotentLengthMax),
    inFlight: result.inFlight,
  };
  return undefined;
}

/**
 * Includes the tenant, so that no answer ever crosses to another, and the models that the key may
 * use, because they decide which model answers.
 */
function fingerprintOf(
  { caller }: Call,
  { request }: Operation,
  cacheIdentity: CacheIdentity,
): string {
  const { models, preferences, operationName } = request;
  const cacheKeyInput = cacheIdentity.cacheKeyInput();
  return fingerprint([
    caller.tenantId,
    operationName,
    caller.models,
    models,
    preferences,
    cacheKeyInput,
  ]);
}

/** A recording as the answer to a request; undefined when the request needs another form. */
function toReplay(
  recording: Recording,
  operation: ReplayableOperation,
  request: Pick<Call, 'requestId' | 'receivedAt'>,
): Replay | undefined {
  const { model, provider } = recording;
  const reply = operation.replay(recording, { ...identityOf(request, model), provider });
  return reply && { recording, reply };
}

/**
 * Like `replayed`, with the id and the price of the first request: a client that lost the first
 * answer learns from the repetition what was charged, and can find its receipt.
 */
function toFirstReplay(
  recording: Recording,
  operation: ReplayableOperation,
  call: Call,
): Replay | undefined {
  const { first } = recording;
  const result = toReplay(recording, operation, first ?? call);
  return result && first ? { ...result, first } : result;
}

function markHit({ headers }: Call, found: Replay): Replay {
  const { model, dropped } = found.recording;
  headers['x-cache'] = 'HIT';
  headers['x-cache-model'] = model;
  if (dropped) headers[droppedParamsHeader] = dropped;
  return found;
}
