import { expect, test } from 'bun:test';
import { type ByokService, setCredential } from './byok.ts';

const pair = 'AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const regional = 'https://bedrock-runtime.eu-west-3.amazonaws.com';
const unnamed = 'https://signed.acme.example';

/** What was kept of a key that a tenant brought, or the sentence that refused it. */
async function bring(provider: object, base_url: string | null, api_key = pair): Promise<unknown> {
  const stored: unknown[] = [];
  const service = {
    directory: { getTenant: async () => ({ id: 'acme' }) },
    providers: new Map([['aws', { byokBaseUrl: true, dialect: 'bedrock', ...provider }]]),
    now: () => 0,
    refusalOf: async () => null,
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
  ['its own address', { baseUrl: unnamed }, regional, pair],
  ["the provider's address", { baseUrl: regional }, null, pair],
  ["the provider's region", { baseUrl: unnamed, region: 'eu-west-3' }, unnamed, pair],
  ['nothing', { baseUrl: unnamed }, null, noRegion],
  ['an address that is not used', { baseUrl: regional }, unnamed, noRegion],
])('a pair of AWS takes its region from %s', async (_, provider, baseUrl, stored) => {
  expect(await bring(provider, baseUrl)).toBe(stored);
});

test.each([
  ['half a pair', 'bedrock', 'AKIAIOSFODNN7EXAMPLE'],
  ['a document that is broken', 'gemini', '{"type":"service_account"'],
  ['a document of another kind', 'gemini', '{"type":"authorized_user"}'],
  ['a word that would end its header', 'openai', 'sk-a\r\nx-admin: 1'],
  ['two words', 'openai', 'sk-a sk-b'],
  ['a word of other letters', 'openai', 'sk-é'],
])('%s is no key, and is not kept', async (_, dialect, key) => {
  expect(await bring({ baseUrl: regional, dialect }, null, key)).toStartWith('api_key ');
});
