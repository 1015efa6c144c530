/** Credentials of the machine or container: how they are requested, used, and replaced. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AwsSource, GoogleSource } from '../../src/config/workload.ts';
import { Secret } from '../../src/core/secret.ts';
import { openObjects } from '../../src/store/objects/open.ts';
import { loadAwsKey } from '../../src/workload/aws.ts';
import { loadGoogleToken } from '../../src/workload/google.ts';
import { checkSignature } from '../support/aws-signature.ts';
import { makeByokTenant } from '../support/byok.ts';
import { chatAnswer, json, startFakeUpstream, status } from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';
import { startS3 } from '../support/s3.ts';

/** A platform that issues credentials. Handlers are set by each test, by method and path. */
type Handler = (request: Request, body: string) => Response;
const handlers = new Map<string, Handler>();
const calls: string[] = [];
const platform = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const route = `${request.method} ${new URL(request.url).pathname}`;
    calls.push(route);
    const body = await request.text();
    return handlers.get(route)?.(request, body) ?? new Response('unknown', { status: 404 });
  },
});
const url = `http://127.0.0.1:${platform.port}`;
const upstream = startFakeUpstream();
const folder = mkdtempSync(join(tmpdir(), 'tollgate-workload-'));
const tokenFile = join(folder, 'token');
afterAll(async () => {
  await platform.stop(true);
  upstream.stop();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  handlers.clear();
  calls.length = 0;
  writeFileSync(tokenFile, 'jwt-one\n');
});

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();
const keys = { AccessKeyId: 'ASIAI44QH8DHBEXAMPLE', SecretAccessKey: 'je7MtGbClwBF/2Zp9Utk' };
const awsJson = (more: object = {}) =>
  Response.json({ ...keys, Token: 'session-token-0001', Expiration: inAnHour(), ...more });
const stsXml = (session: string) =>
  new Response(
    `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult><Credentials>
    <SessionToken>${session}</SessionToken>
    <SecretAccessKey>${keys.SecretAccessKey}</SecretAccessKey>
    <Expiration>${inAnHour()}</Expiration>
    <AccessKeyId>${keys.AccessKeyId}</AccessKeyId>
  </Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`,
    { headers: { 'content-type': 'text/xml' } },
  );
const signal = new AbortController().signal;
const fieldsOf = (body: string) => Object.fromEntries(new URLSearchParams(body));

const webIdentity = {
  kind: 'web_identity',
  stsUrl: url,
  roleArn: 'arn:aws:iam::1:role/gateway',
  sessionName: 'tollgate',
  tokenFile,
} as const;
const container: AwsSource = { kind: 'container', url: `${url}/creds`, token: null, tokenFile };
const instance: AwsSource = { kind: 'instance', url };
const key = { kind: 'aws', accessKeyId: keys.AccessKeyId, secretAccessKey: keys.SecretAccessKey };
const rolePath = '/latest/meta-data/iam/security-credentials/';

describe('AWS', () => {
  test('web identity sends the current token of the file to STS', async () => {
    const forms: object[] = [];
    handlers.set('POST /', (_, body) => {
      forms.push(fieldsOf(body));
      return stsXml('session-token-0001');
    });
    const loaded = await loadAwsKey(webIdentity, signal);
    expect(loaded.key).toEqual({ ...key, kind: 'aws', sessionToken: 'session-token-0001' });
    writeFileSync(tokenFile, 'jwt-two');
    await loadAwsKey(webIdentity, signal);
    const form = {
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: 'arn:aws:iam::1:role/gateway',
      RoleSessionName: 'tollgate',
    };
    expect(forms).toEqual([
      { ...form, WebIdentityToken: 'jwt-one' },
      { ...form, WebIdentityToken: 'jwt-two' },
    ]);
  });

  test("the container's agent receives the current token of the file", async () => {
    handlers.set('GET /creds', (request) =>
      request.headers.get('authorization') === 'jwt-one' ? awsJson() : status401(),
    );
    expect((await loadAwsKey(container, signal)).key.accessKeyId).toBe(keys.AccessKeyId);
    const fixed = { ...container, token: new Secret('jwt-one'), tokenFile: null } as const;
    expect((await loadAwsKey(fixed, signal)).key.accessKeyId).toBe(keys.AccessKeyId);
  });

  test('instance metadata is read with a session token (IMDSv2)', async () => {
    const session = (request: Request) => request.headers.get('x-aws-ec2-metadata-token') === 's1';
    handlers.set('PUT /latest/api/token', (request) =>
      request.headers.has('x-aws-ec2-metadata-token-ttl-seconds')
        ? new Response('s1')
        : status401(),
    );
    handlers.set(`GET ${rolePath}`, (r) => (session(r) ? new Response('gateway') : status401()));
    handlers.set(`GET ${rolePath}gateway`, (r) =>
      session(r) ? awsJson({ Code: 'Success', Type: 'AWS-HMAC' }) : status401(),
    );
    expect((await loadAwsKey(instance, signal)).secrets).toContain('session-token-0001');
  });

  const denied = () =>
    new Response('<Error><Code>AccessDenied</Code><Message>jwt-one</Message></Error>', {
      status: 403,
    });
  test.each<[AwsSource, string, Handler, string]>([
    [
      webIdentity,
      'POST /',
      denied,
      'Assuming the AWS role with AssumeRoleWithWebIdentity at STS failed (status 403, AccessDenied).',
    ],
    [
      { ...webIdentity, tokenFile: '/nowhere/token' },
      'POST /',
      denied,
      'Reading the file in AWS_WEB_IDENTITY_TOKEN_FILE failed (ENOENT).',
    ],
    [
      { ...webIdentity, stsUrl: 'http://127.0.0.1:1' },
      'POST /',
      denied,
      'Assuming the AWS role with AssumeRoleWithWebIdentity at STS failed (ECONNREFUSED).',
    ],
    [
      container,
      'GET /creds',
      () => awsJson({ Expiration: 'soon' }),
      'Getting AWS credentials from the container agent failed (its answer is invalid).',
    ],
    [
      instance,
      'GET /other',
      denied,
      'Getting a session token from the EC2 instance metadata failed (status 404).',
    ],
    [
      instance,
      'PUT /latest/api/token',
      () => new Response('s1'),
      'Reading the role of the EC2 instance from its metadata failed (status 404).',
    ],
  ])('a failure names its step (%#)', async (source, route, handler, message) => {
    handlers.set(route, handler);
    await expect(loadAwsKey(source, signal)).rejects.toThrow(message);
  });
});

const status401 = () => new Response('no', { status: 401 });

const federation: Extract<GoogleSource, { kind: 'federation' }> = {
  kind: 'federation',
  stsUrl: `${url}/v1/token`,
  audience: '//iam.googleapis.com/pool',
  subjectTokenType: 'urn:ietf:params:oauth:token-type:jwt',
  subject: { file: tokenFile, url: null, headers: {}, field: null },
  impersonationUrl: `${url}/v1/sa:generateAccessToken`,
};
const metadataRoute = 'GET /computeMetadata/v1/instance/service-accounts/default/token';
const googleJson = (token: string, headers = {}) =>
  Response.json({ access_token: token, expires_in: 3_599, token_type: 'Bearer' }, { headers });

describe('Google', () => {
  test('federation exchanges the subject token and impersonates the account', async () => {
    handlers.set('POST /v1/token', (_, body) => {
      expect(fieldsOf(body)).toEqual({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        audience: '//iam.googleapis.com/pool',
        scope: 'https://www.googleapis.com/auth/cloud-platform',
        subject_token: 'jwt-one',
        subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      });
      return googleJson('federated-token-1');
    });
    handlers.set('POST /v1/sa:generateAccessToken', (request, body) => {
      expect(request.headers.get('authorization')).toBe('Bearer federated-token-1');
      expect(JSON.parse(body)).toMatchObject({ lifetime: '3600s' });
      return Response.json({ accessToken: 'account-token-1', expireTime: inAnHour() });
    });
    expect((await loadGoogleToken(federation, signal)).text).toBe('account-token-1');
    const direct = { ...federation, impersonationUrl: null };
    expect((await loadGoogleToken(direct, signal)).text).toBe('federated-token-1');
  });

  test('federation reads the subject token from a URL and a JSON field', async () => {
    handlers.set('GET /subject', (request) =>
      Response.json({ value: request.headers.get('x-secret') }),
    );
    handlers.set('POST /v1/token', (_, body) => googleJson(`for-${fieldsOf(body).subject_token}`));
    const headers = { 'x-secret': new Secret('jwt-url') };
    const subject = { file: null, url: `${url}/subject`, headers, field: 'value' };
    const source = { ...federation, subject, impersonationUrl: null };
    expect((await loadGoogleToken(source, signal)).text).toBe('for-jwt-url');
  });

  test.each<[GoogleSource, string, Handler, string]>([
    [
      federation,
      'POST /v1/token',
      () =>
        Response.json({ error: 'invalid_grant', error_description: 'jwt-one' }, { status: 400 }),
      "Exchanging the subject token at Google's STS failed (status 400, invalid_grant).",
    ],
    [
      federation,
      'POST /v1/token',
      () => googleJson('federated-token-1'),
      'Impersonating the service account with generateAccessToken failed (status 404).',
    ],
    [
      { kind: 'metadata', url },
      metadataRoute,
      () => googleJson('from-another-server'),
      'Getting an access token from the Google metadata server failed (its answer is invalid).',
    ],
  ])('a failure names its step (%#)', async (source, route, handler, message) => {
    handlers.set(route, handler);
    await expect(loadGoogleToken(source, signal)).rejects.toThrow(message);
  });
});

describe('a gateway', () => {
  let gateway: InProcessGateway;
  const model = 'eu.anthropic.claude-v1:0';
  const request = (name: string) => ({
    model: `acme/${name}`,
    messages: [{ role: 'user', content: 'Hello' }],
  });

  beforeAll(async () => {
    const aws = { dialect: 'bedrock', base_url: upstream.url, region: 'eu-central-1' };
    const backup = { provider: 'backup', model: 'backup', priority: 1 };
    gateway = await InProcessGateway.start({
      environment: {
        AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
        AWS_ROLE_ARN: 'arn:aws:iam::1:role/gateway',
        AWS_ENDPOINT_URL_STS: url,
        AWS_EC2_METADATA_SERVICE_ENDPOINT: url,
        GCE_METADATA_HOST: `127.0.0.1:${platform.port}`,
      },
      providers: {
        role: { ...aws, credentials: 'aws' },
        broken: { ...aws, credentials: 'aws_instance' },
        vertex: {
          dialect: 'openai',
          base_url: `${upstream.url}/v1`,
          credentials: 'google_metadata',
        },
        backup: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-backup-0123' },
      },
      models: [
        chatModel('acme/role', [{ provider: 'role', model }]),
        chatModel('acme/broken', [{ provider: 'broken', model, priority: 0 }, backup]),
        chatModel('acme/vertex', [{ provider: 'vertex', model: 'gem' }]),
      ],
    });
  });
  afterAll(() => gateway.stop());
  beforeEach(() => {
    upstream.reset();
    upstream.script('backup', chatAnswer('From the backup.'));
    upstream.script('*', converse);
  });
  const converse = json(200, {
    output: { message: { role: 'assistant', content: [{ text: 'Signed.' }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 },
  });

  test('signs requests with the credentials of its role, requested once', async () => {
    handlers.set('POST /', () => stsXml('session-token-0001'));
    const replies = await Promise.all([1, 2, 3].map(() => gateway.post(request('role'))));
    expect(replies.map(contentOf)).toEqual(['Signed.', 'Signed.', 'Signed.']);
    expect(calls).toEqual(['POST /']);
    const [received] = upstream.requests;
    if (!received) throw new Error('The upstream received no request.');
    expect(received.headers['x-amz-security-token']).toBe('session-token-0001');
    checkSignature(received, keys.SecretAccessKey);
  });

  test('sends a token of the metadata server', async () => {
    const flavor = { 'metadata-flavor': 'Google' };
    handlers.set(metadataRoute, (received) =>
      received.headers.get('metadata-flavor') === 'Google'
        ? googleJson('metadata-token-1', flavor)
        : status401(),
    );
    upstream.script('gem', chatAnswer('From Vertex.'));
    expect(contentOf(await gateway.post(request('vertex')))).toBe('From Vertex.');
    expect(upstream.requests[0]?.headers.authorization).toBe('Bearer metadata-token-1');
    upstream.script('gem', status(400, 'The token metadata-token-1 is wrong.'));
    const reply = await gateway.post(request('vertex'));
    expect(reply.text).not.toContain('metadata-token-1');
  });

  test("never uses the gateway's credentials for a request with a tenant's key", async () => {
    const tenant = await makeByokTenant(gateway, 'own');
    const own = { api_key: 'ABSKQmVkcm9ja0FQSUtleQ==', mode: 'byok_only' };
    expect((await tenant.setProviderKey('role', own)).status).toBe(200);
    expect(contentOf(await tenant.chat(request('role')))).toBe('Signed.');
    expect(upstream.requests[0]?.headers.authorization).toBe(`Bearer ${own.api_key}`);
    expect(calls).toEqual([]);
  });

  test('falls back without calling a failing metadata server for each request', async () => {
    const first = await gateway.post(request('broken'));
    const second = await gateway.post(request('broken'));
    expect([first, second].map(contentOf)).toEqual(['From the backup.', 'From the backup.']);
    expect(calls).toEqual(['PUT /latest/api/token']);
    const { attempts } = await gateway.record(second.requestId);
    expect(attempts[0]).toMatchObject({
      outcome: 'credential',
      message: 'Getting a session token from the EC2 instance metadata failed (status 404).',
    });
  });
});

test('objects on S3 are stored with temporary credentials, and the gateway signs their links', async () => {
  const s3 = await startS3();
  try {
    handlers.set('GET /creds', () =>
      awsJson({ AccessKeyId: s3.accessKey, SecretAccessKey: s3.secretKey }),
    );
    const query = new URLSearchParams({ endpoint: s3.endpoint, credentials: 'aws' });
    const address = `s3://${s3.bucket}/p?${query}`;
    const none = { accessKeyId: null, secretAccessKey: null, sessionToken: null };
    const identity = { ...none, region: 'us-east-1', workload: container };
    const store = openObjects(address, identity, { make: (name) => `signed ${name}` });
    await store.put('a.txt', [Buffer.from('audio')]);
    expect(await (await store.open('a.txt'))?.body.text()).toBe('audio');
    expect(store.link('a.txt', { now: 0, expiresAt: 1, baseUrl: '' })).toBe('signed a.txt');
    await store.delete('a.txt');
    expect(s3.objects()).toEqual([]);
    expect(calls).toEqual(['GET /creds']);
  } finally {
    await s3.stop();
  }
});
