import { strict as assert } from 'node:assert';
import { sign } from 'node:crypto';
import type { Provider } from '../../config/config.ts';
import { putBounded } from '../../core/bounded-map.ts';
import { boundedCall, readBounded, unlessAborted } from '../../core/deadlines.ts';
import { fieldsOf, parseJson } from '../../core/json.ts';
import {
  type AwsKey,
  readProviderKey,
  regionIn,
  type ServiceAccount,
} from '../../core/provider-key.ts';
import type { FailureKind, SplicedBody, UpstreamRequest } from '../../dialects/dialect.ts';
import { callOperatorServer } from '../operator-call.ts';
import { signRequest } from './sigv4.ts';

/** A key with which a request cannot even be sent. The sentence says nothing of the key itself. */
export class InvalidKeyError extends Error {
  override readonly name = 'UnusableKey';
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

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
  wasAccepted: boolean;
}

/** The access token of one service account: asked for once, however many requests wait for it. */
export class ServiceAccountToken {
  readonly #account: ServiceAccount;
  readonly #now: () => number;
  #token: Token | undefined;
  #pending: Promise<string> | undefined;

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
    this.#pending ??= this.#fetch().finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  /** The provider accepted this token. */
  accepted(text: string): void {
    if (this.#token?.text === text) this.#token.wasAccepted = true;
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
    const remainingMs = token.wasAccepted ? 0 : refusedMs;
    token.until = Math.min(token.until, this.#now() + remainingMs);
    return token.wasAccepted;
  }

  async #fetch(): Promise<string> {
    const requestedAt = this.#now();
    const { status, text } = await this.#requestToken();
    const fields = fieldsOf(parseJson(text));
    if (status !== 200) throw tokenError(status, fields.error);
    const { access_token: token, expires_in: seconds } = fields;
    const isToken = typeof token === 'string' && /^[\x21-\x7e]{1,16384}$/.test(token);
    if (!isToken || typeof seconds !== 'number' || !(seconds > 0)) {
      throw new InvalidKeyError('unreachable', `${noToken}: the answer makes no sense.`);
    }
    const until = requestedAt + seconds * 1_000 - earlyMs;
    this.#token = { text: token, until, wasAccepted: false };
    return token;
  }

  #requestToken(): Promise<{ readonly status: number; readonly text: string }> {
    const { tokenUrl: url } = this.#account;
    const body = new URLSearchParams({
      grant_type: grantType,
      assertion: assertion(this.#account),
    });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const call = { method: 'POST', url, headers, body: body.toString() } as const;
    return boundedCall(tokenMs, undefined, async (timeoutSignal) => {
      try {
        const answer = await callOperatorServer(call, timeoutSignal);
        return { status: answer.status, text: (await readBounded(answer, answerBytesMax)) ?? '' };
      } catch {
        const why = timeoutSignal.aborted ? 'it was not sent in time' : 'its server did not answer';
        throw new InvalidKeyError('unreachable', `${noToken}: ${why}.`);
      }
    });
  }
}

const noToken = 'The access token of the service account could not be had';

/** Tells only the code of what the server says: the rest may repeat what it was sent. */
function tokenError(status: number, code: unknown): InvalidKeyError {
  const isCode = typeof code === 'string' && /^[a-z_]{1,40}$/.test(code);
  const isAccount = status >= 400 && status < 500 && status !== 408 && status !== 429;
  const why = `status ${status}${isCode ? `, ${code}` : ''}`;
  return new InvalidKeyError(isAccount ? 'credential' : 'unreachable', `${noToken} (${why}).`);
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

/** A request that is about to be sent. */
interface OutgoingRequest {
  readonly url: string;
  readonly contentType: string;
  readonly body: Exclude<UpstreamRequest['body'], SplicedBody>;
}

type AuthHeaders = Readonly<Record<string, string>>;

/** A key that is more than a word: the headers that show it are made for each request. */
export interface Authorizer {
  headersFor(request: OutgoingRequest, signal: AbortSignal): Promise<AuthHeaders>;
  /**
   * Told how the provider took the headers; true when the request should be sent again with new
   * ones. Absent where new ones would be no better.
   */
  needsRefresh?(headers: AuthHeaders, status: number): boolean;
  /** What no message may reveal. */
  readonly secrets: readonly string[];
}

/** How the key of a provider is shown: as a word, or by a pass. Undefined where it has none. */
export function credentialFor(provider: Provider): string | Authorizer | undefined {
  const { apiKey, dialect, baseUrl } = provider;
  if (!apiKey) return undefined;
  const text = apiKey.reveal();
  const account = knownAccount(text);
  if (account) return account;
  const key = readProviderKey(text, dialect);
  if (typeof key === 'string') return new InvalidKeyAuthorizer(`The key ${key}.`, text);
  if (key.kind === 'word') return key.value;
  if (key.kind === 'service_account') return newAccount(text, key);
  const region = regionIn(baseUrl) ?? provider.region;
  return region ? new AwsAuthorizer(key, region) : new InvalidKeyAuthorizer(noRegion, text);
}

const noRegion = 'The key signs for a region, and neither the address nor the provider names one.';

/** For a key that was valid when it was checked, before its provider's settings were changed. */
class InvalidKeyAuthorizer implements Authorizer {
  readonly #message: string;
  readonly secrets: readonly string[];

  constructor(message: string, text: string) {
    this.#message = message;
    this.secrets = [text];
  }

  headersFor(): Promise<AuthHeaders> {
    return Promise.reject(new InvalidKeyError('credential', this.#message));
  }
}

class AwsAuthorizer implements Authorizer {
  readonly #key: AwsKey;
  readonly #region: string;

  constructor(key: AwsKey, region: string) {
    this.#key = key;
    this.#region = region;
  }

  async headersFor({ url, contentType, body }: OutgoingRequest): Promise<AuthHeaders> {
    assert(typeof body === 'string' || body instanceof Uint8Array, 'Uploads are not signed.');
    const headers = { 'content-type': contentType };
    const request = { method: 'POST', url: new URL(url), headers, body };
    return signRequest(
      request,
      this.#key,
      { region: this.#region, service: 'bedrock' },
      Date.now(),
    );
  }

  get secrets(): readonly string[] {
    const { accessKeyId, secretAccessKey, sessionToken } = this.#key;
    return [accessKeyId, secretAccessKey, ...(sessionToken === null ? [] : [sessionToken])];
  }
}

class ServiceAccountAuthorizer implements Authorizer {
  readonly #token: ServiceAccountToken;
  readonly #text: string;

  constructor(text: string, account: ServiceAccount) {
    this.#text = text;
    this.#token = new ServiceAccountToken(account);
  }

  async headersFor(_: OutgoingRequest, signal: AbortSignal): Promise<AuthHeaders> {
    const token = await unlessAborted(this.#token.get(), signal);
    if (token === undefined) throw signal.reason;
    return { authorization: bearer + token };
  }

  needsRefresh({ authorization = '' }: AuthHeaders, status: number): boolean {
    const token = authorization.slice(bearer.length);
    if (status === 401) return this.#token.refused(token);
    this.#token.accepted(token);
    return false;
  }

  get secrets(): readonly string[] {
    const { last } = this.#token;
    return last === undefined ? [this.#text] : [this.#text, last];
  }
}

const bearer = 'Bearer ';

/** Some megabytes. An account that is forgotten here gets a new token with its next request. */
const accountsMax = 1_000;

/**
 * By the text of the key, the latest last: an account keeps its token when the configuration, or
 * the credentials of tenants, are read again.
 */
const accounts = new Map<string, ServiceAccountAuthorizer>();

function knownAccount(text: string): ServiceAccountAuthorizer | undefined {
  const known = accounts.get(text);
  if (!known) return undefined;
  accounts.delete(text);
  accounts.set(text, known);
  return known;
}

function newAccount(text: string, account: ServiceAccount): ServiceAccountAuthorizer {
  const authorizer = new ServiceAccountAuthorizer(text, account);
  putBounded(accounts, text, authorizer, accountsMax);
  return authorizer;
}
