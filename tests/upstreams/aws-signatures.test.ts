/** Requests to AWS are signed with the operator's or the tenant's key. The key isn't revealed. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { checkSignature } from '../support/aws-signature.ts';
import { makeByokTenant } from '../support/byok.ts';
import { chatAnswer, json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const pair = `AKIAIOSFODNN7EXAMPLE:${secret}`;
const sessionToken = 'IQoJb3JpZ2luX2VjEK//EXAMPLE+token='.repeat(40);
const own = { id: 'ASIAI44QH8DHBEXAMPLE', secret: 'je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY' };
const model = 'eu.anthropic.claude-v1:0';
const request = { model: 'acme/claude', messages: [{ role: 'user', content: 'Grüße' }] };

let gateway: InProcessGateway;
beforeAll(async () => {
  const aws = { dialect: 'bedrock', base_url: upstream.url, region: 'eu-central-1' };
  gateway = await InProcessGateway.start({
    providers: {
      aws: { ...aws, api_key: pair },
      word: { ...aws, api_key: 'ABSKQmVkcm9ja0FQSUtleS1hYmNk' },
      backup: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-backup-0123' },
    },
    models: [
      chatModel('acme/claude', [{ provider: 'aws', model }]),
      chatModel('acme/word', [{ provider: 'word', model }]),
      chatModel('acme/both', [
        { provider: 'aws', model, priority: 0 },
        { provider: 'backup', model: 'backup', priority: 1 },
      ]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('*', converse);
});

const converse = json(200, {
  output: { message: { role: 'assistant', content: [{ text: 'Signed and read.' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 },
});

function lastRequest() {
  const received = upstream.requests.at(-1);
  if (!received) throw new Error('The upstream received no request.');
  return received;
}

test('the AWS signature covers the host, the content type, and the full body', async () => {
  const reply = await gateway.post(request);
  expect([reply.status, contentOf(reply)]).toEqual([200, 'Signed and read.']);
  const received = lastRequest();
  expect(received.path).toBe('/model/eu.anthropic.claude-v1%3A0/converse');
  expect(checkSignature(received, secret)).toEqual({
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    region: 'eu-central-1',
    service: 'bedrock',
    signedHeaders: ['content-type', 'host', 'x-amz-date'],
  });
  expect(() => checkSignature({ ...received, raw: Buffer.from('{}') }, secret)).toThrow();
  expect(received.headers).not.toHaveProperty('x-amz-security-token');
});

test('a Bedrock API key is sent as a bearer token', async () => {
  expect((await gateway.post({ ...request, model: 'acme/word' })).status).toBe(200);
  const { headers } = lastRequest();
  expect(headers.authorization).toBe('Bearer ABSKQmVkcm9ja0FQSUtleS1hYmNk');
  expect(headers).not.toHaveProperty('x-amz-date');
});

test('a rejected AWS key falls back to the next provider and is redacted', async () => {
  const message = `The security token AKIAIOSFODNN7EXAMPLE is invalid, not ${secret}.`;
  upstream.script('*', json(403, { message }));
  upstream.script('backup', chatAnswer('From the backup.'));
  const reply = await gateway.post({ ...request, model: 'acme/both' });
  expect(contentOf(reply)).toBe('From the backup.');
  const { attempts } = await gateway.record(reply.requestId);
  expect(attempts[0]).toMatchObject({
    outcome: 'credential',
    message: 'The security token [key] is invalid, not [key].',
  });
  const rejected = await gateway.post(request);
  expect(rejected.status).toBe(502);
  expect(upstream.requests).toHaveLength(3);
  expect(rejected.text + gateway.logLines.join('')).not.toMatch(/AKIAIOSFODNN7|wJalrXUtnFEMI/);
});

describe("a tenant's own AWS key", () => {
  test('signs requests together with its session token and is not revealed', async () => {
    const tenant = await makeByokTenant(gateway, 'signing');
    const key = `${own.id}:${own.secret}:${sessionToken}`;
    const put = await tenant.setProviderKey('aws', { api_key: key, mode: 'byok_only' });
    expect(put.status).toBe(200);
    expect(put.text).not.toMatch(/ASIAI44QH8|je7MtGbC|IQoJb3Jp/);
    expect((await tenant.chat(request)).status).toBe(200);
    const received = lastRequest();
    expect(received.headers['x-amz-security-token']).toBe(sessionToken);
    expect(checkSignature(received, own.secret)).toMatchObject({
      accessKeyId: own.id,
      region: 'eu-central-1',
      signedHeaders: ['content-type', 'host', 'x-amz-date', 'x-amz-security-token'],
    });
    expect(gateway.logLines.join('')).not.toMatch(/ASIAI44QH8|je7MtGbC|IQoJb3Jp/);
  });

  test('is rejected and not stored if a part is missing', async () => {
    const tenant = await makeByokTenant(gateway, 'no-session-token');
    const put = await tenant.setProviderKey('aws', { api_key: `${own.id}:${own.secret}` });
    expect([put.status, put.error.param]).toEqual([400, 'api_key']);
    expect(put.error.message).toBe(
      'api_key must be <access key id>:<secret access key>[:<session token>]: ' +
        'an access key ID that starts with ASIA needs its session token.',
    );
    expect((await tenant.manage('GET', '/api/v1/byok/aws')).status).toBe(404);
  });
});
