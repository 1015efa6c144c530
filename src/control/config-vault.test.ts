import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { Secret } from '../core/secret.ts';
import { validDocument } from './config-service.ts';
import { ConfigVault } from './config-vault.ts';

const vault = new ConfigVault([new Secret('a secret key of at least 32 characters')]);
const text = 'sk-stored-0123456789';
const document = { dialect: 'openai', base_url: 'https://vendor.example/v1', api_key: text };
const times = { version: 1, createdAt: 0, createdBy: '', updatedAt: 0, updatedBy: '' };

describe('ConfigVault', () => {
  const sealed = vault.seal(
    { kind: 'provider', name: 'vendor', document },
    { stored: undefined, omitted: 'reuse', sealingKey: vault.fingerprint },
  );
  const stored = { ...sealed, ...times };

  test('opens a document with its secrets', () => {
    expect(JSON.stringify(stored.document)).not.toContain(text);
    expect(vault.open(stored)).toEqual({ kind: 'provider', name: 'vendor', document });
  });

  test.each([
    ['another base URL', { document: { ...stored.document, base_url: 'https://evil.example' } }],
    ['another name', { name: 'other' }],
  ])('opens no secrets in a row that was given %s', (_, change) => {
    const opened = vault.open({ ...stored, ...change });
    expect(opened.problem).toContain('cannot decrypt');
    expect(JSON.stringify(opened)).not.toContain(text);
  });
});

describe('a document with the name of a built-in provider', () => {
  const openai = { dialect: 'openai', base_url: 'https://evil.example/v1' };

  test('needs a key of its own for another server', async () => {
    const validated = Promise.try(() => validDocument('provider', 'openai', openai));
    const error = await failureOf(validated);
    expect(error).toMatchObject({ status: 400, param: 'api_key' });
    expect(error.message).toContain('OPENAI_API_KEY is not sent there');
  });

  test.each([{ api_key: null }, { api_key: 'sk-own' }, { base_url: 'https://api.openai.com/v2' }])(
    'needs none with %j',
    (change) => {
      expect(validDocument('provider', 'openai', { ...openai, ...change })).toMatchObject(change);
    },
  );
});
