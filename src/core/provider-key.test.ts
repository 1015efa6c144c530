import { describe, expect, test } from 'bun:test';
import { generateKeyPairSync } from 'node:crypto';
import { serviceAccount } from '../../tests/support/service-account.ts';
import { labelOfKey, readProviderKey, regionIn } from './provider-key.ts';

const id = 'AKIAIOSFODNN7EXAMPLE';
const temporary = 'ASIAIOSFODNN7EXAMPLE';
const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const google = 'https://oauth2.googleapis.com/token';

describe('readProviderKey for AWS', () => {
  test('reads a key pair with an optional session token', () => {
    expect(readProviderKey(`${id}:${secret}`, 'bedrock')).toEqual({
      kind: 'aws',
      accessKeyId: id,
      secretAccessKey: secret,
      sessionToken: null,
    });
    const sessionToken = 'IQoJb3JpZ2luX2VjE//+w=='.repeat(60);
    expect(readProviderKey(`${temporary}:${secret}:${sessionToken}`, 'bedrock')).toMatchObject({
      accessKeyId: temporary,
      sessionToken,
    });
  });

  test('reads a Bedrock API key, and any key of another dialect, as a plain key', () => {
    const apiKey = 'ABSKQmVkcm9ja0FQSUtleS1hYmNkZWY=';
    expect(readProviderKey(apiKey, 'bedrock')).toEqual({ kind: 'plain', value: apiKey });
    const pair = `${id}:${secret}`;
    expect(readProviderKey(pair, 'openai')).toEqual({ kind: 'plain', value: pair });
  });

  test.each([
    [id, 'the secret access key is missing'],
    [`${id}:`, 'the secret access key is missing'],
    [`${id}:${secret.slice(0, 9)}…`, 'the secret access key is missing or incomplete'],
    [`user:${secret}`, 'the access key ID must be AKIA or ASIA'],
    [`${temporary}:${secret}`, 'needs its session token'],
    [`${temporary}:${secret}:`, 'needs its session token'],
    [`${temporary}:${secret}:two words`, 'the session token is incomplete'],
    [`${id}:${secret}:token:more`, 'more than 3 parts'],
  ])('rejects %s and names the invalid part', (text, reason) => {
    const message = readProviderKey(text, 'bedrock');
    expect(message).toStartWith('must be <access key id>:<secret access key>[:<session token>]: ');
    expect(message).toContain(reason);
    expect(message).not.toContain(secret.slice(0, 9));
  });
});

describe('readProviderKey for Google service accounts', () => {
  test('reads a key file with its line breaks in every dialect', () => {
    for (const dialect of ['gemini', 'openai', 'anthropic', 'bedrock']) {
      expect(readProviderKey(`\n${serviceAccount(google)}\n`, dialect)).toMatchObject({
        kind: 'service_account',
        email: 'gateway@acme-models.iam.gserviceaccount.com',
        keyId: 'a1b2c3d4e5f6',
        tokenUrl: google,
      });
    }
  });

  test("defaults to Google's token URL and accepts a missing key ID", () => {
    const bare = serviceAccount(google, { token_uri: undefined, private_key_id: undefined });
    expect(readProviderKey(bare, 'gemini')).toMatchObject({ tokenUrl: google, keyId: null });
  });

  const pemOf = (bits: number) =>
    generateKeyPairSync('rsa', { modulusLength: bits }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    });

  test.each([
    ['{"type": "service_account",', 'the JSON is invalid'],
    ['{"type":"authorized_user"}', 'its type must be "service_account"'],
    [serviceAccount(google, { client_email: 'two words' }), 'its client_email'],
    [serviceAccount(google, { private_key_id: 7 }), 'its private_key_id'],
    [serviceAccount(google, { private_key: 'MIIEvQIBADANBgkqhki' }), 'its private_key'],
    [serviceAccount(google, { private_key: undefined }), 'its private_key'],
    [serviceAccount(google, { private_key: pemOf(1_024) }), 'its private_key'],
    [serviceAccount(google, { private_key: pemOf(4_224) }), 'its private_key'],
    [serviceAccount('file:///etc/passwd'), 'its token_uri'],
    [serviceAccount('https://me:secret@a.example/'), 'its token_uri'],
    [serviceAccount(google, { more: 'x'.repeat(16_384) }), 'at most 16384 characters'],
  ])('rejects an invalid key file and names the field (%#)', (text, reason) => {
    const message = readProviderKey(text, 'gemini');
    expect(message).toBeString();
    expect(message).toContain(reason);
    expect(message).not.toContain('MIIE');
  });
});

test.each([
  ['https://bedrock-runtime.us-east-1.amazonaws.com', 'us-east-1'],
  ['https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/', 'us-gov-west-1'],
  ['https://bedrock-runtime.cn-north-1.amazonaws.com.cn', 'cn-north-1'],
  ['https://vpce-1a-2b.bedrock-runtime.eu-central-1.vpce.amazonaws.com', 'eu-central-1'],
  ['https://bedrock-runtime.eu-west-3.api.aws', 'eu-west-3'],
  ['https://bedrock.acme.example', undefined],
  ['https://bedrock-runtime.us-east-1.amazonaws.com.evil.example', undefined],
  ['', undefined],
])('regionIn, given %p, returns %p', (url, region) => {
  expect(regionIn(url)).toBe(region);
});

test('labelOfKey returns the last characters of a key, or the email of a service account', () => {
  expect(labelOfKey(`${id}:${secret}`)).toBe('•••EKEY');
  expect(labelOfKey('{"type":"service_account","client_email":"bot@acme.example"}')).toBe(
    'bot@acme.example',
  );
});
