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

/** Finds earlier answers, by `Idempotency-Key` or by identical request. */

interface ReplayDeps {
  readonly cache: ResponseCache;
  readonly idempotency: Idempotency;
  /** For API keys without their own cache mode. */
  readonly cacheMode: CacheMode;
  /**
   * Returns whether the provider still offers the model. Answers from removed offers aren't
   * replayed.
   */
  isOffered(model: string, provider: string): boolean;
}

/** An operation whose answers can be replayed. */
type ReplayableOperation = Operation & Required<Pick<Operation, 'cacheIdentity' | 'replay'>>;

/**
 * Returns an earlier answer if there is one. Otherwise, starts recording this request's answer if
 * it can be reused.
 */
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

/** Looks for an answer to an identical request. */
function findIdentical(
  call: Call,
  operation: ReplayableOperation,
  deps: ReplayDeps,
): Promise<Replay | undefined> | undefined {
  const mode = call.caller.cacheMode ?? deps.cacheMode;
  // Audio would fill the cache, so it is only stored for an Idempotency-Key.
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
  const { caller, clientSignal } = call;
  const result = await cache.lookUp(name, caller.tenantId, directives, clientSignal, replay);
  if ('found' in result) return markHit(call, result.found);
  const { inFlight } = result;
  if (inFlight)
    call.recordingSession = { recorder: new AnswerRecorder(cachedLengthMax, true), inFlight };
  return undefined;
}

/** Looks for the first answer to the `Idempotency-Key`. */
async function findByIdempotencyKey(
  call: Call,
  operation: ReplayableOperation,
  idempotency: Idempotency,
  key: string,
): Promise<Replay | undefined> {
  const { caller, requestId, headers } = call;
  // An API key that can't use any of the models is rejected later, and must not learn about other
  // requests.
  if (!operation.request.models.some((alias) => mayUseModel(caller, alias))) return undefined;
  const name = fingerprintOf(call, operation, operation.cacheIdentity());
  const claim = { tenantId: caller.tenantId, key, fingerprint: name, requestId };
  const replay = (recording: Recording) => toFirstReplay(recording, operation, call);
  const result = await idempotency.lookUp(claim, call.clientSignal, replay);
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
 * Identifies a request. Includes the tenant, so that no other tenant gets the answer, and the API
 * key's allow-list, because it decides which model answers.
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

/** Converts a recording to a replay, or returns undefined if the request needs another format. */
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
 * Converts a recording to a replay with the ID and cost of the first request, so that a client that
 * lost the first answer learns what was charged and finds its receipt.
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
