import { describe, expect, test } from 'bun:test';
import { generateKeyPairSync } from 'node:crypto';
import { serviceAccount } from '../../tests/support/service-account.ts';
import { labelOfKey, readProviderKey, regionIn } from './provider-key.ts';

const id = 'AKIAIOSFODNN7EXAMPLE';
const temporary = 'ASIAIOSFODNN7EXAMPLE';
const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const google = 'https://oauth2.googleapis.com/token';

describe('the key of AWS', () => {
  test('is a pair, or a pair and a token', () => {
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

  test('is a word where it is an API key of Bedrock, or the dialect is another', () => {
    const word = 'ABSKQmVkcm9ja0FQSUtleS1hYmNkZWY=';
    expect(readProviderKey(word, 'bedrock')).toEqual({ kind: 'word', value: word });
    const pair = `${id}:${secret}`;
    expect(readProviderKey(pair, 'openai')).toEqual({ kind: 'word', value: pair });
  });

  test.each([
    [id, 'the secret access key is missing'],
    [`${id}:`, 'the secret access key is missing'],
    [`${id}:${secret.slice(0, 9)}…`, 'the secret access key is missing, or was not copied whole'],
    [`user:${secret}`, 'the access key id is AKIA or ASIA'],
    [`${temporary}:${secret}`, 'needs its session token'],
    [`${temporary}:${secret}:`, 'needs its session token'],
    [`${temporary}:${secret}:two words`, 'the session token was not copied whole'],
    [`${id}:${secret}:token:more`, 'more parts than these three'],
  ])('%s is refused by the part that is wrong', (text, why) => {
    const refusal = readProviderKey(text, 'bedrock');
    expect(refusal).toStartWith('must be <access key id>:<secret access key>[:<session token>]: ');
    expect(refusal).toContain(why);
    expect(refusal).not.toContain(secret.slice(0, 9));
  });
});

describe('the key of a service account', () => {
  test('is read with the line ends of its file, in every dialect', () => {
    for (const dialect of ['gemini', 'openai', 'anthropic', 'bedrock']) {
      expect(readProviderKey(`\n${serviceAccount(google)}\n`, dialect)).toMatchObject({
        kind: 'service_account',
        email: 'gateway@acme-models.iam.gserviceaccount.com',
        keyId: 'a1b2c3d4e5f6',
        tokenUrl: google,
      });
    }
  });

  test("asks Google where the file does not say whom, and needs no key's id", () => {
    const bare = serviceAccount(google, { token_uri: undefined, private_key_id: undefined });
    expect(readProviderKey(bare, 'gemini')).toMatchObject({ tokenUrl: google, keyId: null });
  });

  const pemOf = (bits: number) =>
    generateKeyPairSync('rsa', { modulusLength: bits }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    });

  test.each([
    ['{"type": "service_account",', 'this JSON cannot be read'],
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
  ])('is refused by the field that is wrong (%#)', (text, why) => {
    const refusal = readProviderKey(text, 'gemini');
    expect(refusal).toBeString();
    expect(refusal).toContain(why);
    expect(refusal).not.toContain('MIIE');
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
])('the region in %p is %p', (url, region) => {
  expect(regionIn(url)).toBe(region);
});

test('a key is told from another by how it ends, a service account by its name', () => {
  expect(labelOfKey(`${id}:${secret}`)).toBe('•••EKEY');
  expect(labelOfKey('{"type":"service_account","client_email":"bot@acme.example"}')).toBe(
    'bot@acme.example',
  );
});
