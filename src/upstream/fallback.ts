import { attemptsMax, planMsMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import type { FailureKind } from '../dialects/dialect.ts';
import type { AttemptRecord } from '../records/request-record.ts';
import type { Offer } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
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
interface AttemptLog {
  readonly attempts: AttemptEntry[];
  /** The fields that the latest attempt didn't send. */
  readonly droppedFields?: readonly string[] | undefined;
  readonly clientSignal: AbortSignal;
}

/** Returns when the answer must have begun. An operator's longer timeout isn't shortened. */
export function openByFor([first]: readonly Offer[], now = performance.now()): number {
  return now + Math.max(planMsMax, first?.provider.timeoutMs ?? 0);
}

/**
 * Tries the offers of a plan in order until one returns output. After that, no other offer is
 * tried, because a second provider could contradict the first.
 */
export async function tryOffers(
  plan: readonly Offer[],
  tryAt: (offer: Offer) => Promise<AttemptResult>,
  health: Health,
  log: AttemptLog,
  openBy: number,
): Promise<OpenedAnswer> {
  const { attempts, clientSignal } = log;
  const failures: TriedFailure[] = [];
  // A list, because `route: sort` mixes the offers of several models.
  const rejectedModels: string[] = [];
  for (const offer of plan) {
    const model = offer.model.id;
    if (rejectedModels.includes(model)) continue;
    const startedAt = performance.now();
    if (attempts.length >= attemptsMax || startedAt >= openBy) break;
    let result: AttemptResult;
    try {
      result = await tryAt(offer);
    } catch (error) {
      // Provider failures are returned, so this is an internal error.
      health.rejected(offer);
      throw error;
    }
    const ms = Math.round(performance.now() - startedAt);
    const isOwnAccount = offer.ownAccount !== null;
    const base = { provider: offer.provider.name, model, own_account: isOwnAccount || undefined };
    if (result.kind !== 'failed') {
      const dropped = log.droppedFields;
      attempts.push({ ...base, dropped, ms, outcome: 'answered', status: 200, message: null });
      health.succeeded(offer, ms);
      return { offer, answer: result, firstByteMs: ms };
    }
    const { failure } = result;
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
    const tried = { ...failure, message, param, isOwnAccount };
    failures.push(tried);
    // An invalid request says nothing about the offer's health. Other providers of the same model
    // would reject it, too, but another model may have other limits.
    if (kind === 'request') health.rejected(offer);
    else health.failed(offer);
    if (kind === 'request' && !isAccessProblem(tried)) rejectedModels.push(model);
  }
  throw finalError(failures);
}
