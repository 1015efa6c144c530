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

describe('api_keys', () => {
  const base_url = 'https://api.acme.example/v1';
  const openai = { dialect: 'openai', base_url };
  const named = (name: string, key = 'sk-acme-1') => ({ name, key });

  test('has defaults, and calls without rotation use the first enabled key', () => {
    const limits = { weight: 70, requests_per_minute: 10, concurrent_requests: 2 };
    const provider = load(
      {
        ...openai,
        api_keys: [
          { ...named('a', ['$', '{KEY_A}'].join('')), disabled: true },
          { ...named('b', ' sk-acme-2\n'), ...limits },
        ],
      },
      { KEY_A: 'sk-acme-1' },
    );
    expect(provider?.apiKey?.reveal()).toBe('sk-acme-2');
    const keys = provider?.keys?.map(({ provider: withKey, ...key }) => ({
      ...key,
      text: withKey.apiKey?.reveal(),
    }));
    const none = { requestsPerMinute: null, concurrentRequests: null, until: null };
    expect(keys).toEqual([
      { name: 'a', weight: 1, ...none, isDisabled: true, text: 'sk-acme-1' },
      {
        ...{ name: 'b', weight: 70, requestsPerMinute: 10, concurrentRequests: 2 },
        ...{ isDisabled: false, until: null, text: 'sk-acme-2' },
      },
    ]);
  });

  test.each([
    [
      [{ ...named('a'), weight: -1 }],
      'api_keys[0].weight must be a whole number from 1 to 1000, not -1',
    ],
    [[], 'api_keys must have at least 1 item'],
    [[{ ...named('a'), disabled: true }], 'api_keys has no enabled key; enable at least one'],
    [[named('a'), named('a')], 'api_keys[1].name is "a", which an earlier key already has'],
    [[named('a'), named('b', ' ')], 'api_keys[1].key must be a non-empty quoted string'],
    [[named('a'), named('b', 'sk-ü')], 'api_keys[1].key has characters that are not valid'],
    [[named('a b')], 'api_keys[0].name must be 1 to 63 letters, digits, "-", "_", and "."'],
  ])('rejects %j', (api_keys, problem) => {
    expect(() => load({ ...openai, api_keys })).toThrow(`providers.mine.${problem}`);
  });

  test('rejects api_keys together with api_key', () => {
    const both = { ...openai, api_key: 'sk-acme-1', api_keys: [named('a')] };
    const problem =
      "providers.mine.api_keys can't be set together with api_key; set only one of them";
    expect(() => load(both)).toThrow(problem);
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
