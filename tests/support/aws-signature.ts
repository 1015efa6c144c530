/** Verifies the AWS Signature Version 4 of a request without using the gateway's code. */
import { createHash, createHmac } from 'node:crypto';

interface SignedRequest {
  readonly method: string;
  /** The path as received. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly raw: Uint8Array;
}

const shape = new RegExp(
  '^AWS4-HMAC-SHA256 Credential=(\\w+)/(\\d{8})/([\\w-]+)/(\\w+)/aws4_request, ' +
    'SignedHeaders=([\\w;-]+), Signature=([0-9a-f]{64})$',
);

interface SignedBy {
  readonly accessKeyId: string;
  readonly region: string;
  readonly service: string;
  readonly signedHeaders: readonly string[];
}

/** Returns the signer of a request. Throws if the signature doesn't match the secret. */
export function checkSignature(request: SignedRequest, secret: string): SignedBy {
  const { method, path, headers, raw } = request;
  const found = shape.exec(headers.authorization ?? '');
  if (!found) throw new Error('The request has no valid Authorization header.');
  const [, accessKeyId = '', date = '', region = '', service = '', names = '', signature = ''] =
    found;
  const time = headers['x-amz-date'] ?? '';
  if (!time.startsWith(`${date}T`))
    throw new Error('The dates in the header and the scope differ.');
  const lines = names.split(';').map((name) => `${name}:${headers[name]?.trim()}\n`);
  const uri = path.replaceAll('%', '%25').replaceAll(':', '%3A').replaceAll('@', '%40');
  const canonical = `${method}\n${uri}\n\n${lines.join('')}\n${names}\n${digest(raw)}`;
  const scope = `${date}/${region}/${service}/aws4_request`;
  const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${digest(canonical)}`;
  const ofDate = mac(`AWS4${secret}`, date);
  const key = mac(mac(mac(ofDate, region), service), 'aws4_request');
  if (mac(key, text).toString('hex') !== signature)
    throw new Error('The signature does not match.');
  return { accessKeyId, region, service, signedHeaders: names.split(';') };
}

function mac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function digest(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}
