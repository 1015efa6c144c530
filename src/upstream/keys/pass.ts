import { strict as assert } from 'node:assert';
import type { Provider } from '../../config/config.ts';
import {
  type AwsKey,
  readProviderKey,
  regionIn,
  type ServiceAccount,
} from '../../core/provider-key.ts';
import { putBounded } from '../../core/put-bounded.ts';
import { unlessAborted } from '../../core/within.ts';
import type { Spliced, UpstreamRequest } from '../../dialects/dialect.ts';
import { AccountToken } from './account-token.ts';
import { sign } from './sigv4.ts';
import { UnusableKey } from './unusable-key.ts';

/** A request that is about to be sent. */
interface Outgoing {
  readonly url: string;
  readonly contentType: string;
  readonly body: Exclude<UpstreamRequest['body'], Spliced>;
}

type HeadersShown = Readonly<Record<string, string>>;

/** A key that is more than a word: the headers that show it are made for each request. */
export interface Pass {
  headersFor(request: Outgoing, signal: AbortSignal): Promise<HeadersShown>;
  /**
   * Told how the provider took the headers; true when the request should be sent again with new
   * ones. Absent where new ones would be no better.
   */
  isOutdated?(shown: HeadersShown, status: number): boolean;
  /** What no message may reveal. */
  readonly secrets: readonly string[];
}

/** How the key of a provider is shown: as a word, or by a pass. Undefined where it has none. */
export function useOfKey(provider: Provider): string | Pass | undefined {
  const { apiKey, dialect, baseUrl } = provider;
  if (!apiKey) return undefined;
  const text = apiKey.reveal();
  const account = knownAccount(text);
  if (account) return account;
  const key = readProviderKey(text, dialect);
  if (typeof key === 'string') return new NoPass(`The key ${key}.`, text);
  if (key.kind === 'word') return key.word;
  if (key.kind === 'service_account') return newAccount(text, key);
  const region = regionIn(baseUrl) ?? provider.region;
  return region ? new AwsPass(key, region) : new NoPass(noRegion, text);
}

const noRegion = 'The key signs for a region, and neither the address nor the provider names one.';

/** For a key that was valid when it was checked, before its provider's settings were changed. */
class NoPass implements Pass {
  readonly #message: string;
  readonly secrets: readonly string[];

  constructor(message: string, text: string) {
    this.#message = message;
    this.secrets = [text];
  }

  headersFor(): Promise<HeadersShown> {
    return Promise.reject(new UnusableKey('credential', this.#message));
  }
}

class AwsPass implements Pass {
  readonly #key: AwsKey;
  readonly #region: string;

  constructor(key: AwsKey, region: string) {
    this.#key = key;
    this.#region = region;
  }

  async headersFor({ url, contentType, body }: Outgoing): Promise<HeadersShown> {
    assert(typeof body === 'string' || body instanceof Uint8Array, 'Uploads are not signed.');
    const headers = { 'content-type': contentType };
    const request = { method: 'POST', url: new URL(url), headers, body };
    return sign(request, this.#key, { region: this.#region, service: 'bedrock' }, Date.now());
  }

  get secrets(): readonly string[] {
    const { accessKeyId, secretAccessKey, sessionToken } = this.#key;
    return [accessKeyId, secretAccessKey, ...(sessionToken === null ? [] : [sessionToken])];
  }
}

class AccountPass implements Pass {
  readonly #token: AccountToken;
  readonly #text: string;

  constructor(text: string, account: ServiceAccount) {
    this.#text = text;
    this.#token = new AccountToken(account);
  }

  async headersFor(_: Outgoing, signal: AbortSignal): Promise<HeadersShown> {
    const token = await unlessAborted(this.#token.get(), signal);
    if (token === undefined) throw signal.reason;
    return { authorization: bearer + token };
  }

  isOutdated({ authorization = '' }: HeadersShown, status: number): boolean {
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
const accounts = new Map<string, AccountPass>();

function knownAccount(text: string): AccountPass | undefined {
  const known = accounts.get(text);
  if (!known) return undefined;
  accounts.delete(text);
  accounts.set(text, known);
  return known;
}

function newAccount(text: string, account: ServiceAccount): AccountPass {
  const pass = new AccountPass(text, account);
  putBounded(accounts, text, pass, accountsMax);
  return pass;
}
