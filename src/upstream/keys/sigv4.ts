import { createHash, createHmac } from 'node:crypto';
import type { AwsKey } from '../../core/provider-key.ts';

/** A request to sign. Its URL has no query, because Bedrock requests have none. */
export interface Signable {
  readonly method: string;
  readonly url: URL;
  /** The headers to sign besides `host`, by lowercase name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** The region and service that a signature is valid for. */
interface SigningScope {
  readonly region: string;
  readonly service: string;
}

const algorithm = 'AWS4-HMAC-SHA256';

/**
 * Returns the headers that sign a request with AWS Signature Version 4, as documented in "Create a
 * signed AWS API request". They are valid for a few minutes before and after `now`, in epoch
 * milliseconds.
 */
export async function signRequest(
  { method, url, headers, body }: Signable,
  { accessKeyId, secretAccessKey, sessionToken }: AwsKey,
  { region, service }: SigningScope,
  now: number,
): Promise<Readonly<Record<string, string>>> {
  const time = new Date(now).toISOString().replaceAll(/[:-]|\.\d+/g, '');
  const date = time.slice(0, 8);
  const amzHeaders = {
    'x-amz-date': time,
    ...(sessionToken === null ? {} : { 'x-amz-security-token': sessionToken }),
  };
  const signed = Object.entries({ ...headers, ...amzHeaders, host: url.host }).sort(byName);
  const names = signed.map(([name]) => name).join(';');
  const canonical = [
    method,
    encodePathTwice(url.pathname),
    '',
    ...signed.map(([name, value]) => `${name}:${value.trim().replaceAll(/ +/g, ' ')}`),
    '',
    names,
    await digestOf(body),
  ].join('\n');
  const scope = `${date}/${region}/${service}/aws4_request`;
  const toSign = [algorithm, time, scope, sha256(canonical)].join('\n');
  const secret = Buffer.from(`AWS4${secretAccessKey}`);
  const key = [date, region, service, 'aws4_request'].reduce(hmac, secret);
  const signature = hmac(key, toSign).toString('hex');
  const credential = `Credential=${accessKeyId}/${scope}`;
  return {
    ...amzHeaders,
    authorization: `${algorithm} ${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
}

/** For all services except S3, the already encoded path is encoded again before it is signed. */
function encodePathTwice(path: string): string {
  return path
    .split('/')
    .map((part) => encodeURIComponent(part).replaceAll(/[!'()*]/g, percentEncode))
    .join('/');
}

function percentEncode(letter: string): string {
  return `%${letter.charCodeAt(0).toString(16).toUpperCase()}`;
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Hashes on another thread, because a body with images would block other requests. */
async function digestOf(body: string | Uint8Array): Promise<string> {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : new Uint8Array(body);
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)).toHex();
}
