import { createPrivateKey, type KeyObject } from 'node:crypto';
import { isObject, parseJson } from './json.ts';
import { Secret } from './secret.ts';

/**
 * A provider key. Most are sent unchanged in a header. AWS keys sign each request, and Google
 * service accounts are exchanged for a token.
 */
type ProviderKey = PlainKey | AwsKey | ServiceAccount;

interface PlainKey {
  readonly kind: 'plain';
  readonly value: string;
}

export interface AwsKey {
  readonly kind: 'aws';
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Set only for temporary keys. */
  readonly sessionToken: string | null;
}

export interface ServiceAccount {
  readonly kind: 'service_account';
  readonly email: string;
  readonly keyId: string | null;
  readonly privateKey: KeyObject;
  /** The URL that issues its tokens. */
  readonly tokenUrl: string;
}

/** Session tokens have no documented limit. A service account's JSON has about 2,400 characters. */
export const providerKeyLengthMax = 16_384;

/** Google's token endpoint. Only operators can configure a different one. */
export const googleTokenUrl = 'https://oauth2.googleapis.com/token';

/** Dialects whose requests are signed as AWS requires, unless the key is a plain API key. */
const signedByAws: ReadonlySet<string> = new Set(['bedrock']);

export function isSignedByAws(dialect: string): boolean {
  return signedByAws.has(dialect);
}

/**
 * Parses a provider key. If the key is invalid, returns an error message phrased to follow the
 * field's name.
 */
export function readProviderKey(text: string, dialect: string): ProviderKey | string {
  if (text.length > providerKeyLengthMax) {
    return `must have at most ${providerKeyLengthMax} characters`;
  }
  if (/^\s*\{/.test(text)) return readServiceAccount(text);
  const isPair = /^A[KS]IA[A-Z0-9]{12,}$|:/.test(text);
  return signedByAws.has(dialect) && isPair ? readAwsKey(text) : { kind: 'plain', value: text };
}

/** Returns a label that identifies a key without revealing it. */
export function labelOfKey(text: string): string {
  const account = parseJson(text);
  const email = isObject(account) ? account.client_email : undefined;
  return typeof email === 'string' ? email : new Secret(text).toString();
}

const awsFormat = 'must be <access key id>:<secret access key>[:<session token>]';

function readAwsKey(text: string): AwsKey | string {
  const [accessKeyId = '', secretAccessKey = '', sessionToken = null, ...more] = text.split(':');
  if (more.length > 0) return `${awsFormat}: it has more than 3 parts`;
  if (!/^A[KS]IA[A-Z0-9]{12,124}$/.test(accessKeyId)) {
    const shape = 'AKIA or ASIA followed by at least 12 uppercase letters or digits';
    return `${awsFormat}: the access key ID must be ${shape}`;
  }
  if (!/^[\w+/=-]{16,128}$/.test(secretAccessKey)) {
    return `${awsFormat}: the secret access key is missing or incomplete`;
  }
  if (accessKeyId.startsWith('ASIA') && !sessionToken) {
    return `${awsFormat}: an access key ID that starts with ASIA needs its session token`;
  }
  if (sessionToken !== null && !/^[\w+/=-]+$/.test(sessionToken)) {
    return `${awsFormat}: the session token is incomplete`;
  }
  return { kind: 'aws', accessKeyId, secretAccessKey, sessionToken };
}

const accountFormat = 'starts like JSON, so it must be a Google service account key';

function readServiceAccount(text: string): ServiceAccount | string {
  const fields = parseJson(text);
  if (!isObject(fields)) return `${accountFormat}: the JSON is invalid or incomplete`;
  const { type, client_email: email, private_key_id: keyId, token_uri: tokenUri } = fields;
  if (type !== 'service_account') return `${accountFormat}: its type must be "service_account"`;
  if (typeof email !== 'string' || !/^[\x21-\x7e]{3,320}$/.test(email)) {
    return `${accountFormat}: its client_email is missing or invalid`;
  }
  if (keyId !== undefined && (typeof keyId !== 'string' || !/^\w{1,200}$/.test(keyId))) {
    return `${accountFormat}: its private_key_id must be letters, digits, and underscores`;
  }
  const privateKey = readPrivateKey(fields.private_key);
  if (!privateKey) return `${accountFormat}: its private_key must be an RSA key in PEM`;
  const tokenUrl = tokenUri === undefined ? googleTokenUrl : tokenUri;
  if (typeof tokenUrl !== 'string' || !isHttpUrl(tokenUrl)) {
    return `${accountFormat}: its token_uri must be an http(s) URL`;
  }
  return { kind: 'service_account', email, keyId: keyId ?? null, privateKey, tokenUrl };
}

/**
 * Parses an RSA key. Google issues 2,048-bit keys. With a key above 4,096 bits, each signature
 * would block the process for too long.
 */
function readPrivateKey(pem: unknown): KeyObject | undefined {
  if (typeof pem !== 'string') return undefined;
  try {
    const key = createPrivateKey(pem);
    const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
    return key.asymmetricKeyType === 'rsa' && bits >= 2_048 && bits <= 4_096 ? key : undefined;
  } catch {
    return undefined;
  }
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '';
}

const hostOfRegion = new RegExp(
  '(?:^|\\.)bedrock-runtime(?:-fips)?\\.([a-z]{2,}(?:-[a-z]+)+-\\d+)' +
    '\\.(?:vpce\\.)?(?:amazonaws\\.com(?:\\.cn)?|api\\.aws)$',
);

/** Returns the region in an AWS URL, or undefined. */
export function regionIn(baseUrl: string): string | undefined {
  return hostOfRegion.exec(URL.parse(baseUrl)?.hostname ?? '')?.[1];
}
