import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { serviceAccount } from '../../tests/support/service-account.ts';
import { loadConfig } from './load.ts';
import type { Environment } from './read-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-workload-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

function write(content: string): string {
  const path = join(folder, String(++files));
  writeFileSync(path, content);
  return path;
}

function load(provider: object, env: Environment) {
  const config = write(stringify({ providers: { mine: provider } }));
  return loadConfig({ config }, env).providers.get('mine');
}

const bedrock = {
  dialect: 'bedrock',
  base_url: 'https://bedrock-runtime.us-east-1.amazonaws.com',
  credentials: 'aws',
};
const vertex = {
  dialect: 'gemini',
  base_url: 'https://eu-aiplatform.googleapis.com/v1',
  credentials: 'google',
};
const pair = {
  AWS_ACCESS_KEY_ID: 'AKIAIOSFODNN7EXAMPLE',
  AWS_SECRET_ACCESS_KEY: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const webIdentity = {
  AWS_WEB_IDENTITY_TOKEN_FILE: '/var/run/token',
  AWS_ROLE_ARN: 'arn:aws:iam::1:role/gateway',
};
const ecs = { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: '/v2/credentials/1' };

describe('credentials: aws', () => {
  test('prefers a key in the environment, then web identity, then the container', () => {
    const key = load(bedrock, { ...pair, ...webIdentity, ...ecs });
    expect(key?.apiKey?.reveal()).toBe(Object.values(pair).join(':'));
    expect(key?.workload).toBeUndefined();
    expect(load(bedrock, { ...webIdentity, ...ecs, AWS_REGION: 'eu-west-1' })).toMatchObject({
      apiKey: null,
      workload: { kind: 'web_identity', stsUrl: 'https://sts.eu-west-1.amazonaws.com' },
    });
    expect(load(bedrock, ecs)?.workload).toMatchObject({
      kind: 'container',
      url: 'http://169.254.170.2/v2/credentials/1',
    });
  });

  test('uses instance metadata only if it is named', () => {
    expect(() => load(bedrock, {})).toThrow(/credentials finds none: .* use aws_instance$/);
    expect(load({ ...bedrock, credentials: 'aws_instance' }, {})?.workload).toEqual({
      kind: 'instance',
      url: 'http://169.254.169.254',
    });
  });

  test.each([
    [{ ...bedrock, api_key: 'ABSK' }, {}, "credentials can't be set together with api_key;"],
    [
      { ...bedrock, api_keys: [{ name: 'a', key: 'ABSK' }] },
      {},
      "credentials can't be set together with api_keys;",
    ],
    [{ ...bedrock, dialect: 'openai' }, ecs, 'credentials is for AWS, so it needs the dialect'],
    [{ ...bedrock, base_url: 'https://a.example' }, ecs, 'region is required'],
    [bedrock, { AWS_WEB_IDENTITY_TOKEN_FILE: '/t' }, 'credentials needs AWS_ROLE_ARN'],
    [
      bedrock,
      { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://10.0.0.1/' },
      'credentials needs a URL with https://, or with the address of the ECS or EKS agent',
    ],
    [
      { ...vertex, base_url: 'https://googleapis.com.example/v1', credentials: 'google_metadata' },
      {},
      'credentials is for Google, so base_url must',
    ],
    [
      { ...vertex, base_url: 'http://eu-aiplatform.googleapis.com/v1' },
      {},
      'credentials is for Google, so base_url must start with https://',
    ],
    [vertex, {}, 'credentials finds none: set GOOGLE_APPLICATION_CREDENTIALS'],
    [vertex, { GOOGLE_APPLICATION_CREDENTIALS: '/none' }, "can't read the file in GOOGLE_A"],
  ])('rejects %j with %j', (provider, env, message) => {
    expect(() => load(provider, env)).toThrow(
      `providers.mine.${message}`.replace('mine.can', 'mine.credentials can'),
    );
  });
});

describe('credentials: google', () => {
  const federation = {
    type: 'external_account',
    audience:
      '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/o',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: 'https://sts.googleapis.com/v1/token',
    credential_source: { file: '/var/run/token' },
  };
  const loadFile = (content: string) =>
    load(vertex, { GOOGLE_APPLICATION_CREDENTIALS: write(content) });

  test('uses a service account key like one in the file', () => {
    const text = serviceAccount('https://oauth2.googleapis.com/token');
    expect(loadFile(text)?.apiKey?.reveal()).toBe(text);
  });

  test('reads a federation configuration', () => {
    expect(loadFile(JSON.stringify(federation))?.workload).toMatchObject({
      kind: 'federation',
      subject: { file: '/var/run/token' },
      impersonationUrl: null,
    });
  });

  test.each([
    [{ token_url: 'http://sts.example/' }, 'needs an https:// URL as token_url'],
    [{ credential_source: {} }, 'needs a file or a url as credential_source'],
    [
      { credential_source: { environment_id: 'aws1', url: 'http://169.254.169.254/' } },
      'needs a file or a url, not a signed AWS request as credential_source',
    ],
    [{ type: 'authorized_user' }, 'must be "service_account"'],
  ])('rejects the file with %j', (change, message) => {
    expect(() => loadFile(JSON.stringify({ ...federation, ...change }))).toThrow(message);
  });
});

describe('objects', () => {
  const objectsAt = (url: string, env: Environment) =>
    loadConfig({ config: write(stringify({ objects: url })) }, env).s3Credentials.workload;

  test('uses temporary credentials only if the URL names them', () => {
    expect(objectsAt('s3://b/p', ecs)).toBeNull();
    expect(objectsAt('s3://b/p?credentials=aws', ecs)).toMatchObject({ kind: 'container' });
    expect(objectsAt('s3://b/p?credentials=aws_instance', {})).toMatchObject({ kind: 'instance' });
    expect(objectsAt('s3://b/p?credentials=aws', pair)).toBeNull();
    expect(() => objectsAt('s3://b/p?credentials=aws', {})).toThrow(
      'objects with credentials=aws finds none',
    );
    expect(() => objectsAt('s3://b/p?credentials=gcp', {})).toThrow(
      'objects must have credentials=aws or credentials=aws_instance',
    );
  });
});
