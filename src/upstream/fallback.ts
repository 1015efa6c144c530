import { attemptsMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import type { FailureKind, UpstreamFailure } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalogue.ts';
import type { Health } from '../route/health.ts';
import type { AttemptResult, OpenStream, WholeReply } from './attempt.ts';

/** One line of a request's trail: where it went and what came of it. Kept for the log. */
export interface TrailEntry {
  readonly provider: string;
  readonly model: string;
  /** `answered`, or the kind of failure. */
  readonly outcome: 'answered' | FailureKind;
  readonly status: number | null;
  readonly message: string | null;
  readonly ms: number;
}

export interface Opened {
  readonly offer: Offer;
  readonly answer: OpenStream | WholeReply;
  readonly firstByteMs: number;
}

/** `next`: the next candidate. `model`: skip to the next model, whose limits may differ. */
const moves: Readonly<Record<FailureKind, 'next' | 'model'>> = {
  request: 'model',
  credential: 'next',
  rate_limited: 'next',
  quota: 'next',
  overloaded: 'next',
  timeout: 'next',
  server: 'next',
  unreachable: 'next',
  malformed: 'next',
};

/** Failures that say something about the offer's health, not about one request. */
const blameless: ReadonlySet<FailureKind> = new Set(['request']);

/**
 * Walks the plan until an offer answers. Stops at the first words: once the client has them, a
 * second provider would contradict the first.
 */
export async function openFirst(
  plan: readonly Offer[],
  tryOffer: (offer: Offer) => Promise<AttemptResult>,
  health: Health,
  trail: TrailEntry[],
  client: AbortSignal,
): Promise<Opened> {
  const failures: UpstreamFailure[] = [];
  let refusedModel: string | undefined;
  for (const offer of plan) {
    if (offer.model.id === refusedModel) continue;
    if (trail.length >= attemptsMax) break;
    const startedAt = performance.now();
    const result = await tryOffer(offer);
    const ms = Math.round(performance.now() - startedAt);
    const place = { provider: offer.provider.name, model: offer.model.id, ms };
    if (result.kind !== 'failed') {
      trail.push({ ...place, outcome: 'answered', status: 200, message: null });
      health.succeeded(offer, ms);
      return { offer, answer: result, firstByteMs: ms };
    }
    // A client that left makes every connection look broken; that is nobody's failure.
    if (client.aborted) throw clientLeft();
    const { failure } = result;
    const message = scrub(failure.message, offer);
    trail.push({ ...place, outcome: failure.kind, status: failure.status, message });
    if (!blameless.has(failure.kind)) health.failed(offer);
    failures.push({ ...failure, message });
    if (moves[failure.kind] === 'model') refusedModel = offer.model.id;
  }
  throw finalError(failures);
}

export function clientLeft(): GatewayError {
  return new GatewayError('upstream_error', 'The client closed the connection.');
}

/** What the client is told after every candidate failed: the failure it can do most about. */
export function finalError(failures: readonly UpstreamFailure[]): GatewayError {
  const refused = failures.find((failure) => failure.kind === 'request');
  if (refused) {
    return new GatewayError('invalid_request_error', refused.message, { status: 400 });
  }
  const waits = failures.filter(({ kind }) => kind === 'rate_limited' || kind === 'overloaded');
  if (failures.length > 0 && waits.length === failures.length) {
    const seconds = Math.min(...waits.map((failure) => failure.retryAfterSeconds ?? 5));
    const message = 'Every provider of this model is rate limited right now; try again shortly.';
    return new GatewayError('upstream_error', message, { status: 503, retryAfterSeconds: seconds });
  }
  const last = failures.at(-1);
  const status = last?.kind === 'timeout' ? 504 : 502;
  const counted = failures.length === 1 ? 'The provider' : `All ${failures.length} attempts`;
  const message = `${counted} failed: ${publicReason(last)}`;
  // We have tried every candidate already; an SDK's own retries would only multiply that.
  return new GatewayError('upstream_error', message, { status, retryHelps: false });
}

/** Credentials and quotas are between the operator and the provider. */
function publicReason(failure: UpstreamFailure | undefined): string {
  if (!failure) return 'there was nothing to try.';
  if (failure.kind === 'credential' || failure.kind === 'quota') {
    return 'the provider refused our account.';
  }
  return failure.message;
}

/** An upstream's sentence without what must not leave: keys, and the upstream's model name. */
function scrub(message: string, offer: Offer): string {
  const key = offer.provider.apiKey?.reveal();
  const withoutKey = key ? message.replaceAll(key, '[key]') : message;
  return withoutKey
    .replaceAll(offer.upstreamModel, offer.model.id)
    .replaceAll(/\b(sk|xai|gsk|key)-[\w*-]{6,}/g, '[key]');
}
