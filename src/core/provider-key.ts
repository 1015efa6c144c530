import { createPrivateKey, type KeyObject } from 'node:crypto';
import { isObject, parseJson } from './json.ts';
import { Secret } from './secret.ts';

/**
 * What the key of a provider can be. Most are a word that goes into a header as it is; those of
 * AWS sign each request, and those of Google's service accounts are exchanged for a token.
 */
type ProviderKey = PlainKey | AwsKey | ServiceAccount;

interface PlainKey {
  readonly kind: 'word';
  readonly value: string;
}

export interface AwsKey {
  readonly kind: 'aws';
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Only keys that expire have one. */
  readonly sessionToken: string | null;
}

export interface ServiceAccount {
  readonly kind: 'service_account';
  readonly email: string;
  readonly keyId: string | null;
  readonly privateKey: KeyObject;
  /** Where to get its tokens. */
  readonly tokenUrl: string;
}

/** Session tokens, and words with one in them, have no stated limit; the JSON takes 2,400. */
export const providerKeyLengthMax = 16_384;

/** Where to get Google's own tokens. Only operators may send a gateway elsewhere. */
export const googleTokenUrl = 'https://oauth2.googleapis.com/token';

/** Dialects whose servers want requests signed by AWS's rules, unless they are shown a word. */
const signedByAws: ReadonlySet<string> = new Set(['bedrock']);

/** The key that a text is, or the rest of a sentence that begins with its field's name. */
export function readProviderKey(text: string, dialect: string): ProviderKey | string {
  if (text.length > providerKeyLengthMax) {
    return `must have at most ${providerKeyLengthMax} characters`;
  }
  if (/^\s*\{/.test(text)) return readServiceAccount(text);
  const isPair = /^A[KS]IA[A-Z0-9]{12,}$|:/.test(text);
  return signedByAws.has(dialect) && isPair ? readAwsKey(text) : { kind: 'word', value: text };
}

/** How people tell one key from another without seeing it. */
export function labelOfKey(text: string): string {
  const account = parseJson(text);
  const email = isObject(account) ? account.client_email : undefined;
  return typeof email === 'string' ? email : new Secret(text).toString();
}

const awsFormat = 'must be <access key id>:<secret access key>[:<session token>]';

function readAwsKey(text: string): AwsKey | string {
  const [accessKeyId = '', secretAccessKey = '', sessionToken = null, ...more] = text.split(':');
  if (more.length > 0) return `${awsFormat}: it has more parts than these three`;
  if (!/^A[KS]IA[A-Z0-9]{12,124}$/.test(accessKeyId)) {
    return `${awsFormat}: the access key id is AKIA or ASIA and 12 or more capitals and digits`;
  }
  if (!/^[\w+/=-]{16,128}$/.test(secretAccessKey)) {
    return `${awsFormat}: the secret access key is missing, or was not copied whole`;
  }
  if (accessKeyId.startsWith('ASIA') && !sessionToken) {
    return `${awsFormat}: an access key id that begins with ASIA needs its session token`;
  }
  if (sessionToken !== null && !/^[\w+/=-]+$/.test(sessionToken)) {
    return `${awsFormat}: the session token was not copied whole`;
  }
  return { kind: 'aws', accessKeyId, secretAccessKey, sessionToken };
}

const accountFormat = 'begins as JSON, so it must be the key of a Google service account';

function readServiceAccount(text: string): ServiceAccount | string {
  const fields = parseJson(text);
  if (!isObject(fields))
    return `${accountFormat}: this JSON cannot be read, or was not copied whole`;
  const { type, client_email: email, private_key_id: keyId, token_uri: tokenUri } = fields;
  if (type !== 'service_account') return `${accountFormat}: its type must be "service_account"`;
  if (typeof email !== 'string' || !/^[\x21-\x7e]{3,320}$/.test(email)) {
    return `${accountFormat}: its client_email is missing or is none`;
  }
  if (keyId !== undefined && (typeof keyId !== 'string' || !/^\w{1,200}$/.test(keyId))) {
    return `${accountFormat}: its private_key_id must be letters and digits`;
  }
  const privateKey = readPrivateKey(fields.private_key);
  if (!privateKey) return `${accountFormat}: its private_key must be an RSA key in PEM`;
  const tokenUrl = tokenUri === undefined ? googleTokenUrl : tokenUri;
  if (typeof tokenUrl !== 'string' || !isHttpAddress(tokenUrl)) {
    return `${accountFormat}: its token_uri must be an http(s) address`;
  }
  return { kind: 'service_account', email, keyId: keyId ?? null, privateKey, tokenUrl };
}

/** Google makes 2,048 bits. More than 4,096 would hold the whole process up at each signature. */
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

function isHttpAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '';
}

const hostOfRegion = new RegExp(
  '(?:^|\\.)bedrock-runtime(?:-fips)?\\.([a-z]{2,}(?:-[a-z]+)+-\\d+)' +
    '\\.(?:vpce\\.)?(?:amazonaws\\.com(?:\\.cn)?|api\\.aws)$',
);

/** The region that an address of AWS is in; undefined when it does not say. */
export function regionIn(baseUrl: string): string | undefined {
  return hostOfRegion.exec(URL.parse(baseUrl)?.hostname ?? '')?.[1];
}
