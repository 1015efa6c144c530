import { sign } from 'node:crypto';
import { boundedCall, readBounded } from '../../core/bounded-call.ts';
import { fieldsOf, parseJson } from '../../core/json.ts';
import type { ServiceAccount } from '../../core/provider-key.ts';
import { callOperatorServer } from '../operator-call.ts';
import { UnusableKey } from './unusable-key.ts';

/** The deadline of the call for a token, which requests share; each of them has its own, too. */
const tokenMs = 10_000;
/** Google's answers take about a kilobyte. */
const answerBytesMax = 64 * 1024;
/** A token must last until it reaches the provider, even if the two clocks differ. */
const earlyMs = 60_000;
/** For how long a token is kept that was refused at its first use. */
const refusedMs = 60_000;
/** The longest life of an assertion, by Google's rules. */
const assertionSeconds = 3_600;

const scope = 'https://www.googleapis.com/auth/cloud-platform';
const grantType = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

interface Token {
  readonly text: string;
  /** By the process's monotonic clock. */
  until: number;
  /** Whether a provider has accepted the token: if it is refused later, a new one may help. */
  isProven: boolean;
}

/** The access token of one service account: asked for once, however many requests wait for it. */
export class AccountToken {
  readonly #account: ServiceAccount;
  readonly #now: () => number;
  #token: Token | undefined;
  #coming: Promise<string> | undefined;

  constructor(account: ServiceAccount, now: () => number = () => performance.now()) {
    this.#account = account;
    this.#now = now;
  }

  /** The latest token, whether or not it is still valid. */
  get last(): string | undefined {
    return this.#token?.text;
  }

  get(): Promise<string> {
    const token = this.#token;
    if (token && this.#now() < token.until) return Promise.resolve(token.text);
    this.#coming ??= this.#fetch().finally(() => {
      this.#coming = undefined;
    });
    return this.#coming;
  }

  /** The provider accepted this token. */
  accepted(text: string): void {
    if (this.#token?.text === text) this.#token.isProven = true;
  }

  /**
   * The provider refused this token; returns whether a new one could fare better. A token that was
   * refused at its first use shows that the account is refused, and must not be replaced with each
   * request; but an account that is new, or was mended, must not have to wait until the token
   * expires.
   */
  refused(text: string): boolean {
    const token = this.#token;
    if (token?.text !== text) return true;
    // The token is not forgotten: answers to other requests that used it may still quote it.
    const keptMs = token.isProven ? 0 : refusedMs;
    token.until = Math.min(token.until, this.#now() + keptMs);
    return token.isProven;
  }

  async #fetch(): Promise<string> {
    const askedAt = this.#now();
    const { status, text } = await this.#ask();
    const fields = fieldsOf(parseJson(text));
    if (status !== 200) throw refusal(status, fields.error);
    const { access_token: token, expires_in: seconds } = fields;
    const isToken = typeof token === 'string' && /^[\x21-\x7e]{1,16384}$/.test(token);
    if (!isToken || typeof seconds !== 'number' || !(seconds > 0)) {
      throw new UnusableKey('unreachable', `${noToken}: the answer makes no sense.`);
    }
    const until = askedAt + seconds * 1_000 - earlyMs;
    this.#token = { text: token, until, isProven: false };
    return token;
  }

  #ask(): Promise<{ readonly status: number; readonly text: string }> {
    const { tokenUrl: url } = this.#account;
    const body = new URLSearchParams({
      grant_type: grantType,
      assertion: assertion(this.#account),
    });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const call = { method: 'POST', url, headers, body: body.toString() } as const;
    return boundedCall(tokenMs, undefined, async (over) => {
      try {
        const answer = await callOperatorServer(call, over);
        return { status: answer.status, text: (await readBounded(answer, answerBytesMax)) ?? '' };
      } catch {
        const why = over.aborted ? 'it was not sent in time' : 'its server did not answer';
        throw new UnusableKey('unreachable', `${noToken}: ${why}.`);
      }
    });
  }
}

const noToken = 'The access token of the service account could not be had';

/** Tells only the code of what the server says: the rest may repeat what it was sent. */
function refusal(status: number, code: unknown): UnusableKey {
  const isCode = typeof code === 'string' && /^[a-z_]{1,40}$/.test(code);
  const isAccount = status >= 400 && status < 500 && status !== 408 && status !== 429;
  const why = `status ${status}${isCode ? `, ${code}` : ''}`;
  return new UnusableKey(isAccount ? 'credential' : 'unreachable', `${noToken} (${why}).`);
}

/**
 * The assertion that Google exchanges for an access token: a JSON Web Token, signed with the
 * account's key.
 */
function assertion({ email, keyId, privateKey, tokenUrl }: ServiceAccount): string {
  const issuedAt = Math.floor(Date.now() / 1_000);
  const header = { alg: 'RS256', typ: 'JWT', ...(keyId === null ? {} : { kid: keyId }) };
  const claims = {
    iss: email,
    scope,
    aud: tokenUrl,
    iat: issuedAt,
    exp: issuedAt + assertionSeconds,
  };
  const text = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`;
}
