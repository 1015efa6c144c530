import { strict as assert } from 'node:assert';
import { sign } from 'node:crypto';
import type { Provider } from '../../config/config.ts';
import type { GoogleSource, WorkloadSource } from '../../config/workload.ts';
import { putBounded } from '../../core/bounded-map.ts';
import { callConfiguredServer } from '../../core/call-configured-server.ts';
import { boundedCall, unlessAborted } from '../../core/deadlines.ts';
import { fieldsOf, parseJson } from '../../core/json.ts';
import {
  type AwsKey,
  readProviderKey,
  regionIn,
  type ServiceAccount,
} from '../../core/provider-key.ts';
import { readBounded } from '../../core/read-bounded.ts';
import type { FailureKind, SplicedBody, UpstreamRequest } from '../../dialects/dialect.ts';
import { awsCredentialOf, isAws } from '../../workload/aws.ts';
import { googleCredentialOf } from '../../workload/google.ts';
import { WorkloadError } from '../../workload/refreshed-credential.ts';
import { signRequest } from './sigv4.ts';

/** Thrown if a key can't be used to send a request. The message doesn't reveal the key. */
export class InvalidKeyError extends Error {
  override readonly name = 'InvalidKeyError';
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The timeout of a token request. The requests that wait for it have their own timeouts. */
const tokenMs = 10_000;
/** Google's answers are about 1 kB. */
const answerBytesMax = 64 * 1024;
/** A token is renewed this early, because it must reach the provider and clocks may differ. */
const earlyMs = 60_000;
/** How long a token is still used after it was rejected at its first use. */
const rejectedMs = 60_000;
/** The longest lifetime of an assertion that Google accepts. */
const assertionSeconds = 3_600;

const scope = 'https://www.googleapis.com/auth/cloud-platform';
const grantType = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

interface Token {
  readonly text: string;
  /** On the monotonic clock. */
  until: number;
  /** True once a provider has accepted the token. If it is rejected later, a new one may work. */
  wasAccepted: boolean;
}

/** The access token of one service account. Concurrent requests share one token request. */
export class ServiceAccountToken {
  readonly #account: ServiceAccount;
  readonly #now: () => number;
  #token: Token | undefined;
  #pending: Promise<string> | undefined;

  constructor(account: ServiceAccount, now: () => number = () => performance.now()) {
    this.#account = account;
    this.#now = now;
  }

  /** The latest token, valid or expired. */
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

  /** Records that the provider accepted this token. */
  accepted(text: string): void {
    if (this.#token?.text === text) this.#token.wasAccepted = true;
  }

  /**
   * Records that the provider rejected this token. Returns whether a new token may work. If a token
   * is rejected at its first use, the provider rejects the account, and new tokens wouldn't help.
   * The token is still used for a short time, until the account may have been set up or fixed.
   */
  rejected(text: string): boolean {
    const token = this.#token;
    if (token?.text !== text) return true;
    // The token is kept for redaction, because other answers may still quote it.
    const remainingMs = token.wasAccepted ? 0 : rejectedMs;
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
      throw new InvalidKeyError(
        'unreachable',
        `${noToken}: the token server's response is invalid.`,
      );
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
        const answer = await callConfiguredServer(call, timeoutSignal);
        return { status: answer.status, text: (await readBounded(answer, answerBytesMax)) ?? '' };
      } catch {
        const reason = timeoutSignal.aborted
          ? 'the token server timed out'
          : "the token server didn't respond";
        throw new InvalidKeyError('unreachable', `${noToken}: ${reason}.`);
      }
    });
  }
}

const noToken = "Couldn't get an access token for the service account";

/**
 * Includes only the error code from the answer, because the answer's text may quote the request.
 */
function tokenError(status: number, code: unknown): InvalidKeyError {
  const isCode = typeof code === 'string' && /^[a-z_]{1,40}$/.test(code);
  const isAccount = status >= 400 && status < 500 && status !== 408 && status !== 429;
  const details = `status ${status}${isCode ? `, ${code}` : ''}`;
  return new InvalidKeyError(isAccount ? 'credential' : 'unreachable', `${noToken} (${details}).`);
}

/** Creates the JWT that Google exchanges for an access token, signed with the account's key. */
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

/** Creates authentication headers for each request. Used for keys that aren't sent unchanged. */
export interface Authorizer {
  headersFor(request: OutgoingRequest, signal: AbortSignal): Promise<AuthHeaders>;
  /**
   * Called with the status of the response to these headers. Returns whether to send the request
   * again with new headers. Absent if new headers can't help.
   */
  needsRefresh?(headers: AuthHeaders, status: number): boolean;
  /** Texts that no message may reveal. */
  readonly secrets: readonly string[];
}

/**
 * Returns the provider's key if it is sent unchanged; otherwise, its authorizer. Returns undefined
 * if there is no key.
 */
export function credentialFor(provider: Provider): string | Authorizer | undefined {
  const { apiKey, dialect, baseUrl, workload } = provider;
  const region = regionIn(baseUrl) ?? provider.region;
  if (workload) return workloadAuthorizer(workload, region);
  if (!apiKey) return undefined;
  const text = apiKey.reveal();
  const account = knownAccount(text);
  if (account) return account;
  const key = readProviderKey(text, dialect);
  if (typeof key === 'string') return new InvalidKeyAuthorizer(`The key ${key}.`, text);
  if (key.kind === 'plain') return key.value;
  if (key.kind === 'service_account') return newAccount(text, key);
  return region
    ? new AwsAuthorizer(staticKey(key), region)
    : new InvalidKeyAuthorizer(noRegion, text);
}

const noRegion = "AWS keys need a region. Set the provider's region or use a regional base URL.";

/** Rejects every request. Used for a key that became invalid when the provider's config changed. */
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

/** A key that is written in the configuration, or that is replaced before it expires. */
interface AwsKeys {
  get(signal: AbortSignal): Promise<AwsKey>;
  rejected(sessionToken: string | undefined): boolean;
  readonly secrets: readonly string[];
}

function staticKey(key: AwsKey): AwsKeys {
  const { accessKeyId, secretAccessKey, sessionToken } = key;
  return {
    get: () => Promise.resolve(key),
    rejected: () => false,
    secrets: [accessKeyId, secretAccessKey, ...(sessionToken === null ? [] : [sessionToken])],
  };
}

class AwsAuthorizer implements Authorizer {
  readonly #keys: AwsKeys;
  readonly #region: string;

  constructor(keys: AwsKeys, region: string) {
    this.#keys = keys;
    this.#region = region;
  }

  async headersFor(
    { url, contentType, body }: OutgoingRequest,
    signal: AbortSignal,
  ): Promise<AuthHeaders> {
    assert(typeof body === 'string' || body instanceof Uint8Array, "Uploads can't be signed.");
    const headers = { 'content-type': contentType };
    const request = { method: 'POST', url: new URL(url), headers, body };
    const scope = { region: this.#region, service: 'bedrock' };
    return signRequest(request, await this.#keys.get(signal), scope, Date.now());
  }

  /** AWS answers with 403 if a session has expired or was revoked. */
  needsRefresh(headers: AuthHeaders, status: number): boolean {
    return status === 403 && this.#keys.rejected(headers['x-amz-security-token']);
  }

  get secrets(): readonly string[] {
    return this.#keys.secrets;
  }
}

/** Returns an authorizer for credentials of the machine or container. */
function workloadAuthorizer(source: WorkloadSource, region: string | undefined): Authorizer {
  if (!isAws(source)) return new GoogleWorkloadAuthorizer(source);
  if (!region) return new InvalidKeyAuthorizer(noRegion, '');
  const credential = awsCredentialOf(source);
  const keys: AwsKeys = {
    get: async (signal) => (await usable(credential.get(signal))).key,
    rejected(sessionToken) {
      const { last } = credential;
      return credential.rejected(last?.key.sessionToken === sessionToken ? last : undefined);
    },
    get secrets() {
      return credential.last?.secrets ?? [];
    },
  };
  return new AwsAuthorizer(keys, region);
}

class GoogleWorkloadAuthorizer implements Authorizer {
  readonly #credential: ReturnType<typeof googleCredentialOf>;

  constructor(source: GoogleSource) {
    this.#credential = googleCredentialOf(source);
  }

  async headersFor(_: OutgoingRequest, signal: AbortSignal): Promise<AuthHeaders> {
    const { text } = await usable(this.#credential.get(signal));
    return { authorization: bearer + text };
  }

  needsRefresh({ authorization }: AuthHeaders, status: number): boolean {
    const { last } = this.#credential;
    if (status !== 401) return false;
    return this.#credential.rejected(authorization === bearer + last?.text ? last : undefined);
  }

  get secrets(): readonly string[] {
    return this.#credential.last?.secrets ?? [];
  }
}

/** Reports a failed refresh like a key that the provider rejected. */
async function usable<T>(credential: Promise<T>): Promise<T> {
  try {
    return await credential;
  } catch (error) {
    if (error instanceof WorkloadError) throw new InvalidKeyError('credential', error.message);
    throw error;
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
    if (status === 401) return this.#token.rejected(token);
    this.#token.accepted(token);
    return false;
  }

  get secrets(): readonly string[] {
    const { last } = this.#token;
    return last === undefined ? [this.#text] : [this.#text, last];
  }
}

const bearer = 'Bearer ';

/** A few megabytes. An evicted account gets a new token with its next request. */
const accountsMax = 1_000;

/**
 * Authorizers by key text, least recently used first. They keep their tokens when the config or the
 * tenants' credentials are reloaded.
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
