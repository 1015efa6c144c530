import { attemptsMax, planMsMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import type { FailureKind, UpstreamFailure } from '../dialects/dialect.ts';
import type { AttemptRecord } from '../records/request-record.ts';
import type { Offer } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
import type { KeyRotation } from '../route/provider-keys.ts';
import type { SessionSource } from '../route/stickiness.ts';
import type { AttemptResult } from './attempt.ts';
import { finalError, isAccessProblem, redact, type TriedFailure } from './failure-message.ts';

export interface AttemptEntry extends AttemptRecord {
  readonly outcome: 'answered' | 'client_disconnected' | FailureKind;
}

export interface OpenedAnswer {
  readonly offer: Offer;
  readonly answer: Exclude<AttemptResult, { kind: 'failed' }>;
  readonly firstByteMs: number;
}

/** Thrown if the client disconnected while an offer was processing the full request. */
export class RequestAbandoned extends GatewayError {
  readonly offer: Offer;

  constructor(offer: Offer) {
    super('upstream_error', clientLeft);
    this.offer = offer;
  }
}

const clientLeft = 'The client closed the connection.';

/** The request that the attempts belong to. */
interface AttemptLog extends SessionSource {
  readonly attempts: AttemptEntry[];
  /** The fields that the latest attempt didn't send. */
  readonly droppedFields?: readonly string[] | undefined;
  readonly clientSignal: AbortSignal;
  /** Frees the provider's key that answers; set for providers with several keys. */
  releaseProviderKey?: (() => void) | undefined;
}

/** What is known about the offers, and updated with each attempt. */
interface OfferStates {
  readonly health: Health;
  /** Returns the keys to try at an offer whose provider has several. */
  readonly providerKeys: { rotationOf(offer: Offer, request: SessionSource): KeyRotation };
}

/** Returns when the answer must have begun. An operator's longer timeout isn't shortened. */
export function openByFor([first]: readonly Offer[], now = performance.now()): number {
  return now + Math.max(planMsMax, first?.provider.timeoutMs ?? 0);
}

/** Attempts that the keys of one provider leave for the offers after it. */
const attemptsForOthers = 4;

/**
 * Tries the offers of a plan in order until one returns output. After that, no other offer is
 * tried, because a second provider could contradict the first. If a provider has several keys, an
 * offer is tried with the next key after a failure that another key may not have: `tryAt` gets the
 * planned offer, and the same offer with the key to use.
 */
export async function tryOffers(
  plan: readonly Offer[],
  tryAt: (offer: Offer, withKey: Offer) => Promise<AttemptResult>,
  { health, providerKeys }: OfferStates,
  log: AttemptLog,
  openBy: number,
): Promise<OpenedAnswer> {
  const { attempts } = log;
  const failures: TriedFailure[] = [];
  // A list, because `route: sort` mixes the offers of several models.
  const rejectedModels: string[] = [];
  const isOver = (now: number) => attempts.length >= attemptsMax || now >= openBy;
  for (const [index, offer] of plan.entries()) {
    if (rejectedModels.includes(offer.model.id)) continue;
    let startedAt = performance.now();
    if (isOver(startedAt)) break;
    const rotation = offer.keys && providerKeys.rotationOf(offer, log);
    let failure: TriedFailure | undefined;
    let withKey = rotation ? await rotation.next() : offer;
    const leftForOthers = Math.min(plan.length - index - 1, attemptsForOthers);
    while (withKey) {
      let result: AttemptResult;
      try {
        result = await tryAt(offer, withKey);
      } catch (error) {
        // Provider failures are returned, so this is an internal error.
        health.rejected(offer);
        rotation?.end();
        throw error;
      }
      const ms = Math.round(performance.now() - startedAt);
      if (result.kind !== 'failed') {
        const { droppedFields: dropped } = log;
        const answered = { dropped, ms, outcome: 'answered', status: 200, message: null } as const;
        attempts.push({ ...attemptAt(offer, rotation), ...answered });
        health.succeeded(offer, ms);
        if (rotation) log.releaseProviderKey = rotation.answered();
        return { offer, answer: result, firstByteMs: ms };
      }
      rotation?.end();
      failure = recordFailure(offer, rotation, result.failure, { ms, log });
      startedAt = performance.now();
      const hasNext = rotation?.failed(failure) === true && !isOver(startedAt);
      const mayRotate = hasNext && attempts.length + leftForOthers < attemptsMax;
      withKey = mayRotate ? await rotation.next() : undefined;
    }
    if (rotation) failure = limitedFailure(rotation, failure) ?? failure;
    if (!failure) continue;
    failures.push(failure);
    // An invalid request says nothing about the offer's health, and neither do limits of some keys.
    // Other providers of the same model would reject it, too, but another model may have other
    // limits.
    const isHealthy = failure.kind === 'request' || (rotation && failure.kind === 'rate_limited');
    if (isHealthy) health.rejected(offer);
    else health.failed(offer);
    if (failure.kind === 'request' && !isAccessProblem(failure))
      rejectedModels.push(offer.model.id);
  }
  throw finalError(failures);
}

function attemptAt({ provider, model, ownAccount }: Offer, rotation: KeyRotation | null) {
  return {
    provider: provider.name,
    ...(rotation && { key: rotation.keyName }),
    model: model.id,
    own_account: ownAccount !== null || undefined,
  };
}

/** Adds a failed attempt to the log. Throws if the client disconnected. */
function recordFailure(
  offer: Offer,
  rotation: KeyRotation | null,
  failure: UpstreamFailure,
  { ms, log: { attempts, clientSignal } }: { readonly ms: number; readonly log: AttemptLog },
): TriedFailure {
  const base = attemptAt(offer, rotation);
  // The client disconnected, so don't count this against the provider's health.
  if (clientSignal.aborted) {
    attempts.push({ ...base, ms, outcome: 'client_disconnected', status: null, message: null });
    throw failure.isAbandoned
      ? new RequestAbandoned(offer)
      : new GatewayError('upstream_error', clientLeft);
  }
  const { kind, status } = failure;
  const message = redact(failure.message, offer);
  const param = failure.param && redact(failure.param, offer);
  attempts.push({ ...base, ms, outcome: kind, status, message });
  return { ...failure, message, param, isOwnAccount: offer.ownAccount !== null };
}

/** Failures that a provider's other keys may not have. */
const keyFailures: ReadonlySet<FailureKind> = new Set(['credential', 'quota', 'rate_limited']);

/**
 * Returns the failure of an offer whose usable keys are all rate limited, with the shortest wait of
 * them, or undefined. `last` is the failure of the last attempt, if there was one.
 */
function limitedFailure(rotation: KeyRotation, last?: TriedFailure): TriedFailure | undefined {
  if (last && !keyFailures.has(last.kind)) return undefined;
  const retryAfterSeconds = rotation.waitSeconds();
  if (retryAfterSeconds === null) return undefined;
  const message = "All of the gateway's keys at this provider are rate limited.";
  const limit = { kind: 'rate_limited', status: 429, message, retryAfterSeconds } as const;
  return { ...limit, isOwnAccount: false };
}
