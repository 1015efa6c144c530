import { GatewayError, invalidRequest } from '../core/errors.ts';
import type { UpstreamFailure } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalog.ts';
import { secretsOf } from './provider-client.ts';

/** What a client may hear about a failure of an upstream, and what stays with the operator. */

/** A failure, and whether it befell the caller's own account at the provider. */
export interface TriedFailure extends UpstreamFailure {
  readonly isOwnAccount: boolean;
}

/**
 * To a tenant's account without access to a model, a provider says that there is no such model; the
 * operator's account may have access.
 */
export function isAccessProblem({ kind, status, isOwnAccount }: TriedFailure): boolean {
  return kind === 'request' && status === 404 && isOwnAccount;
}

/** What the client is told after every candidate failed: the failure it can do most about. */
export function finalError(tried: readonly TriedFailure[]): GatewayError {
  // Where other accounts were asked as well, their failures say whether to ask again.
  const others = tried.filter((failure) => !isAccessProblem(failure));
  const failures = others.length > 0 ? others : tried;
  const refused = failures.find((failure) => failure.kind === 'request');
  if (refused) return invalidRequest(refused.message, refused.param);
  const retryable = failures.filter(({ kind }) => kind === 'rate_limited' || kind === 'overloaded');
  if (failures.length > 0 && retryable.length === failures.length) {
    const seconds = Math.min(...retryable.map((failure) => failure.retryAfterSeconds ?? 5));
    const isOverload = retryable.some(({ kind }) => kind === 'overloaded');
    const busy = isOverload ? 'overloaded' : 'rate limited';
    const message = `Every provider of this model is ${busy} right now; try again shortly.`;
    const more = { status: 503, retryAfterSeconds: seconds, isOverload } as const;
    return new GatewayError('upstream_error', message, more);
  }
  const last = failures.at(-1);
  const status = last?.kind === 'timeout' ? 504 : 502;
  const subject = failures.length === 1 ? 'The provider' : `All ${failures.length} attempts`;
  const reason = last ? publicReason(last) : 'there was nothing to try.';
  // An account that is refused now will be refused again; a server that failed may recover.
  const retryHelps = failures.some(({ kind }) => kind !== 'credential' && kind !== 'quota');
  return new GatewayError('upstream_error', `${subject} failed: ${reason}`, { status, retryHelps });
}

/** Why a provider failed, in words for the client. The whole story is in the trail. */
export function publicReason(failure: TriedFailure): string {
  switch (failure.kind) {
    case 'credential':
    case 'quota':
      // Credentials and quotas are between the account's owner and the provider.
      return `the provider refused ${failure.isOwnAccount ? 'your own' : 'our'} account.`;
    case 'malformed':
      // The message quotes what came: a page of some proxy, or half of an answer.
      return 'the provider sent an answer that cannot be used.';
    default:
      return failure.message;
  }
}

/** Keys other than the one that was used: a provider may quote another key, or the id of a key. */
const keyPattern = /\b(?:sk|xai|gsk|key|ak)-[\w*-]{6,}/g;

/** How providers name the account that was used. */
const accountPatterns = [
  // OpenAI, Groq and Moonshot.
  /\b(?:org|proj)[-_][A-Za-z0-9]{16,}\b/g,
  // xAI.
  /(?<=\b(?:team|api key id):? )[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi,
  // Google.
  /(?<=\bprojects\/)[\w-]+(?=\/locations\/)|(?<=\bproject_number:)\d+/g,
  // Amazon.
  /(?<=\barn:aws[\w-]*:[\w-]*:[\w-]*:)\d{12}\b/g,
];

/** An upstream's sentence without what nobody may learn: keys, accounts, its address, its model. */
export function redact(message: string, offer: Offer): string {
  const { provider, upstreamModel, model } = offer;
  const withoutKey = secretsOf(provider).reduce(
    (text, secret) => withoutPartialSecret(replaceName(text, secret, '[key]'), secret),
    message,
  );
  const withoutAddress = addressesOf(provider).reduce(
    (text, address) => replaceName(text, address, provider.name),
    withoutKey,
  );
  const withModelName = replaceName(withoutAddress, upstreamModel, model.id);
  return accountPatterns.reduce(
    (text, account) => text.replaceAll(account, '[account]'),
    withModelName.replaceAll(keyPattern, '[key]'),
  );
}

/**
 * The address of a provider, from the whole to its parts; a host of one word is left out, because
 * it may be an ordinary word.
 */
function addressesOf({ baseUrl }: Offer['provider']): string[] {
  const { origin, host, hostname } = new URL(baseUrl);
  const addresses = [baseUrl.replace(/\/+$/, ''), origin, host, hostname];
  return addresses.filter((address) => /[.:]/.test(address));
}

/** Shorter names occur inside ordinary words, so they are replaced only where they stand alone. */
const distinctiveLength = 8;

function replaceName(text: string, name: string, replacement: string): string {
  if (!text.includes(name)) return text;
  if (name.length >= distinctiveLength) return text.replaceAll(name, () => replacement);
  const standalone = new RegExp(`(?<!\\w)${RegExp.escape(name)}(?!\\w)`, 'g');
  return text.replaceAll(standalone, () => replacement);
}

/** Long sentences were cut before they come here, and may end with the beginning of a secret. */
function withoutPartialSecret(text: string, secret: string): string {
  for (let length = Math.min(secret.length, text.length); length >= distinctiveLength; length--) {
    if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}[key]`;
  }
  return text;
}
