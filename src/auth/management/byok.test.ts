import { expect, test } from 'bun:test';
import { type ByokService, setCredential } from './byok.ts';

const pair = 'AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const withRegion = 'https://bedrock-runtime.eu-west-3.amazonaws.com';
const withoutRegion = 'https://signed.acme.example';

/** Saves a tenant's key and returns what was stored, or the error message. */
async function saveKey(
  provider: object,
  base_url: string | null,
  api_key = pair,
): Promise<unknown> {
  const stored: unknown[] = [];
  const service = {
    directory: { getTenant: async () => ({ id: 'acme' }) },
    providers: new Map([['aws', { byokBaseUrl: true, dialect: 'bedrock', ...provider }]]),
    now: () => 0,
    rejectionReason: async () => null,
    vault: () => ({
      save: async ({ apiKey }: { apiKey: string }) => {
        stored.push(apiKey);
        return { createdAt: 0, updatedAt: 0 };
      },
    }),
  };
  try {
    const body = { api_key, base_url };
    await setCredential(service as unknown as ByokService, 'acme', 'aws', body);
    return stored[0];
  } catch (error) {
    expect(stored).toEqual([]);
    return (error as Error).message;
  }
}

const noRegion = 'api_key needs an AWS region, but neither base_url nor the provider has one.';

test.each([
  ["the credential's base_url", { baseUrl: withoutRegion }, withRegion, pair],
  ["the provider's base URL", { baseUrl: withRegion }, null, pair],
  ["the provider's region", { baseUrl: withoutRegion, region: 'eu-west-3' }, withoutRegion, pair],
  ['neither of them', { baseUrl: withoutRegion }, null, noRegion],
  [
    "a provider's base URL that base_url overrides",
    { baseUrl: withRegion },
    withoutRegion,
    noRegion,
  ],
])('setCredential reads the AWS region from %s', async (_, provider, baseUrl, stored) => {
  expect(await saveKey(provider, baseUrl)).toBe(stored);
});

test.each([
  ['an AWS access key without its secret', 'bedrock', 'AKIAIOSFODNN7EXAMPLE'],
  ['a malformed JSON key', 'gemini', '{"type":"service_account"'],
  ['a JSON key of another type', 'gemini', '{"type":"authorized_user"}'],
  ['a key with a line break', 'openai', 'sk-a\r\nx-admin: 1'],
  ['a key with a space', 'openai', 'sk-a sk-b'],
  ['a key with non-ASCII characters', 'openai', 'sk-é'],
])('setCredential rejects %s', async (_, dialect, key) => {
  expect(await saveKey({ baseUrl: withRegion, dialect }, null, key)).toStartWith('api_key ');
});
