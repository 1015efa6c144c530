/** A Google service account, and the check that Google's token server does. */
import { generateKeyPairSync, verify } from 'node:crypto';

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

/** A line of the private key. Tests search for this line to detect leaks of the key. */
export const privateLine = pem.split('\n')[5] ?? '';

export function serviceAccount(tokenUri: string, more: object = {}): string {
  const fields = {
    type: 'service_account',
    project_id: 'acme-models',
    private_key_id: 'a1b2c3d4e5f6',
    private_key: pem,
    client_email: 'gateway@acme-models.iam.gserviceaccount.com',
    client_id: '123456789',
    token_uri: tokenUri,
    universe_domain: 'googleapis.com',
    ...more,
  };
  return JSON.stringify(fields, undefined, 2);
}

interface Assertion {
  readonly grantType: string | null;
  readonly header: unknown;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly isSigned: boolean;
}

/** Parses and verifies the signed request for a token. */
export function readAssertion(body: string): Assertion {
  const form = new URLSearchParams(body);
  const [header = '', claims = '', signature = ''] = (form.get('assertion') ?? '').split('.');
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());
  const signed = Buffer.from(`${header}.${claims}`);
  return {
    grantType: form.get('grant_type'),
    header: read(header),
    claims: read(claims),
    isSigned: verify('sha256', signed, publicKey, Buffer.from(signature, 'base64url')),
  };
}
