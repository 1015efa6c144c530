import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { privateLine, serviceAccount } from '../../tests/support/service-account.ts';
import { loadConfig } from './load.ts';
import type { Environment } from './read-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-keys-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

function load(provider: object, env: Environment = {}) {
  const path = join(folder, `${++files}.yaml`);
  writeFileSync(path, stringify({ providers: { mine: provider } }));
  return loadConfig({ config: path }, env).providers.get('mine');
}

const pair = 'AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const aws = { dialect: 'bedrock', api_key: pair };
const gemini = { dialect: 'gemini', base_url: 'https://eu-aiplatform.googleapis.com/v1' };

test.each(['', 12_345])('api_key must be a non-empty string, not %j', (api_key) => {
  expect(() => load({ ...gemini, api_key })).toThrow(
    'providers.mine.api_key must be a non-empty quoted string',
  );
});

describe('AWS key pair', () => {
  test('uses the region in the base URL', () => {
    const base_url = 'https://bedrock-runtime.us-east-1.amazonaws.com';
    expect(load({ ...aws, base_url })?.apiKey?.reveal()).toBe(pair);
  });

  test('uses the configured region if the base URL has none', () => {
    const base_url = 'https://bedrock.acme.example';
    expect(load({ ...aws, base_url, region: 'us-east-1' })?.region).toBe('us-east-1');
    expect(() => load({ ...aws, base_url })).toThrow(
      'providers.mine.region is required: requests with an AWS key are signed for a region, and ' +
        'base_url does not name one',
    );
    expect(() => load({ ...aws, base_url, region: 'US East' })).toThrow(
      'providers.mine.region must be a region such as "eu-central-1"',
    );
    const word = { ...aws, base_url, api_key: 'ABSKQmVkcm9ja0FQSUtleQ==' };
    expect(load(word)?.apiKey?.reveal()).toBe('ABSKQmVkcm9ja0FQSUtleQ==');
  });
});

describe('Google service account', () => {
  const text = serviceAccount('http://10.0.0.7/token');

  test('is accepted in the file and in the environment, with line breaks', () => {
    expect(load({ ...gemini, api_key: text })?.apiKey?.reveal()).toBe(text);
    const api_key = ['$', '{ACCOUNT}'].join('');
    expect(load({ ...gemini, api_key }, { ACCOUNT: `${text}\n` })?.apiKey?.reveal()).toBe(text);
  });

  test.each([
    [text.slice(0, 900), 'the JSON is invalid'],
    [serviceAccount('http://10.0.0.7/token', { client_email: '' }), 'its client_email'],
  ])('is rejected if invalid, without repeating it (%#)', (api_key, reason) => {
    let message = '';
    try {
      load({ ...gemini, api_key });
    } catch (error) {
      message = String(error);
    }
    expect(message).toContain('providers.mine.api_key starts like JSON');
    expect(message).toContain(reason);
    expect(message).not.toContain(privateLine);
  });
});
