import { GatewayError, invalidRequest } from '../core/errors.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import type { UpstreamFailure } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalog.ts';
import { secretsOf } from './provider-client.ts';

/** Decides what clients may read about an upstream failure. */

/** The failure of one attempt. */
export interface TriedFailure extends UpstreamFailure {
  /** True if the attempt used the caller's own account at the provider. */
  readonly isOwnAccount: boolean;
}

/**
 * Returns whether a 404 may mean that the tenant's own account has no access to the model. The
 * operator's account may have access.
 */
export function isAccessProblem({ kind, status, isOwnAccount }: TriedFailure): boolean {
  return kind === 'request' && status === 404 && isOwnAccount;
}

/** Returns the client's error after all attempts failed. Prefers an error that clients can fix. */
export function finalError(tried: readonly TriedFailure[]): GatewayError {
  // If other accounts were tried, too, their failures decide whether a retry helps.
  const others = tried.filter((failure) => !isAccessProblem(failure));
  const failures = others.length > 0 ? others : tried;
  const rejected = failures.find((failure) => failure.kind === 'request');
  if (rejected) return invalidRequest(rejected.message, rejected.param);
  const retryable = failures.filter(({ kind }) => kind === 'rate_limited' || kind === 'overloaded');
  if (failures.length > 0 && retryable.length === failures.length) {
    const seconds = Math.min(...retryable.map((failure) => failure.retryAfterSeconds ?? 5));
    return retryable.every(isRateLimit) ? providerLimit(retryable.length, seconds) : busy(seconds);
  }
  const last = failures.at(-1);
  const status = last?.kind === 'timeout' ? 504 : 502;
  const reason = last ? publicReason(last) : 'No provider was tried.';
  // A server may recover, but an account that is rejected now will be rejected again.
  const retryHelps = failures.some(({ kind }) => kind !== 'credential' && kind !== 'quota');
  const message = summarize(failures.length, reason);
  return new GatewayError('upstream_error', message, { status, retryHelps });
}

function isRateLimit({ kind, status }: TriedFailure): boolean {
  return kind === 'rate_limited' || status === 429;
}

function providerLimit(attempts: number, retryAfterSeconds: number): GatewayError {
  const by = attempts === 1 ? 'its provider' : 'all of its providers';
  const seconds = Math.max(1, Math.ceil(retryAfterSeconds));
  const limited = `This model is rate limited by ${by}, not by this gateway.`;
  const message = `${limited} Try again in ${seconds} s.`;
  const details = { status: 429, retryAfterSeconds, isProviderLimit: true } as const;
  return new GatewayError('upstream_error', message, details);
}

function busy(retryAfterSeconds: number): GatewayError {
  const message = 'Every provider of this model is overloaded right now. Try again shortly.';
  return new GatewayError('upstream_error', message, {
    status: 503,
    retryAfterSeconds,
    isOverload: true,
  });
}

function summarize(attempts: number, reason: string): string {
  if (attempts === 1) {
    return reason.startsWith('The provider ') ? reason : `The provider failed: ${reason}`;
  }
  const all = attempts === 2 ? 'Both' : `All ${attempts}`;
  return `${all} attempts failed. Last error: ${reason}`;
}

/** Returns why a provider failed, without secrets. The log has the full message. */
export function publicReason(failure: TriedFailure): string {
  switch (failure.kind) {
    case 'credential':
    case 'quota':
      // Details of an account are only for its owner.
      return `The provider rejected ${failure.isOwnAccount ? 'your' : "the gateway's"} account.`;
    case 'malformed':
      // The message quotes the response, which may be a proxy's error page.
      return 'The provider sent an invalid response.';
    default:
      return failure.message;
  }
}

/** Matches keys other than the one that was used. Providers may quote another key or a key ID. */
const keyPattern = /\b(?:sk|xai|gsk|key|ak)-[\w*-]{6,}/g;

/** Match the account names that providers include in messages. */
const accountPatterns = [
  // OpenAI, Groq, and Moonshot.
  /\b(?:org|proj)[-_][A-Za-z0-9]{16,}\b/g,
  // xAI.
  /(?<=\b(?:team|api key id):? )[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi,
  // Google.
  /(?<=\bprojects\/)[\w-]+(?=\/locations\/)|(?<=\bproject_number:)\d+/g,
  // Amazon.
  /(?<=\barn:aws[\w-]*:[\w-]*:[\w-]*:)\d{12}\b/g,
];

/** Removes all known keys, account names, the provider's URL, and its model name from a message. */
export function redact(message: string, offer: Offer): string {
  const { provider, upstreamModel, model } = offer;
  const withoutKey = secretsOf(provider).reduce(
    (text, secret) => withoutPartialSecret(replaceName(text, secret, '[key]'), secret),
    message,
  );
  const withoutKeys = knownCredentials
    .findIn(withoutKey)
    .reduce((text, known) => text.replaceAll(known, () => '[key]'), withoutKey);
  const withoutUrl = urlsOf(provider).reduce(
    (text, url) => replaceName(text, url, provider.name),
    withoutKeys,
  );
  const withModelName = replaceName(withoutUrl, upstreamModel, model.id);
  return accountPatterns.reduce(
    (text, account) => text.replaceAll(account, '[account]'),
    withModelName.replaceAll(keyPattern, '[key]'),
  );
}

/**
 * Returns the base URL of a provider and its parts, longest first. A host without a dot is left
 * out, because it may be an ordinary word.
 */
function urlsOf({ baseUrl }: Offer['provider']): string[] {
  const { origin, host, hostname } = new URL(baseUrl);
  const urls = [baseUrl.replace(/\/+$/, ''), origin, host, hostname];
  return urls.filter((url) => /[.:]/.test(url));
}

/** Shorter names may occur inside other words, so they are replaced only as full words. */
const distinctiveLength = 8;

function replaceName(text: string, name: string, replacement: string): string {
  if (!text.includes(name)) return text;
  if (name.length >= distinctiveLength) return text.replaceAll(name, () => replacement);
  const standalone = new RegExp(`(?<!\\w)${RegExp.escape(name)}(?!\\w)`, 'g');
  return text.replaceAll(standalone, () => replacement);
}

/** Removes the beginning of a secret at the end of a message that was truncated. */
function withoutPartialSecret(text: string, secret: string): string {
  for (let length = Math.min(secret.length, text.length); length >= distinctiveLength; length--) {
    if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}[key]`;
  }
  return text;
}
