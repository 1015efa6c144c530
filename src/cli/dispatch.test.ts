import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SecretRotation } from '../auth/secret-rotation.ts';
import { Vault } from '../auth/vault.ts';
import type { Endpoint, ListedModel } from '../config/config.ts';
import { everySection, loadConfig } from '../config/load.ts';
import { ConfigProblems } from '../config/problems.ts';
import { ConfigVault } from '../control/config-vault.ts';
import { Secret, type SecretKeys } from '../core/secret.ts';
import { openStore } from '../store/open.ts';
import { verifyLedger } from '../store/verify/verify.ts';
import { builtInSkills } from '../tools/skills/built-in.ts';
import { SkillService } from '../tools/skills/skill-service.ts';
import { type CommandEnvironment, runCommand } from './dispatch.ts';
import { topics } from './topics.ts';

let folder: string;
let opened = 0;
let secretKey = 'the-secret-key-of-the-command-line-tests';
let previousKey: string | null = null;
/** The text on stdin. */
let stdin = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-cli-'));
  await tollgate('tenants', 'create', '--id', 'default', '--name', 'Default');
});
afterAll(() => rm(folder, { recursive: true }));

const models: readonly ListedModel[] = [
  model('demo/chat', [
    { provider: 'demo', model: 'chat', priority: 0, pricing: { prompt: '0.5', completion: '1' } },
  ]),
  { ...priced('acme/disabled', { prompt: '7', completion: '8' }), isConfigured: false },
  priced('acme/ears', { minute: '0.006' }),
  priced('acme/voice', { characters: '15', request: '0.01' }),
  priced('acme/painter', { prompt: '5', output_image: '0.04' }),
];

function priced(id: string, pricing: Endpoint['pricing']): ListedModel {
  return model(id, [{ provider: 'acme', model: 'x', priority: 0, pricing }]);
}

function model(id: string, endpoints: readonly Endpoint[]): ListedModel {
  const text = ['text' as const];
  const modalities = { input_modalities: text, output_modalities: text };
  return { id, name: id, ...modalities, features: [], endpoints, isConfigured: true };
}

function secretKeys(): SecretKeys {
  return [new Secret(secretKey), ...(previousKey === null ? [] : [new Secret(previousKey)])];
}

const now = () => Date.UTC(2026, 10, 15, 12);
const noNetwork = {
  testProvider: async () => undefined,
  download: async () => ({ ok: false as const, reason: 'No network.' }),
};
const builtIn = loadConfig({}, {}, everySection, { source: 'none', data: {} });

/** Runs a command on a real store, like a separate process. */
async function tollgate(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const environment: CommandEnvironment = {
    version: '1.2.3',
    out: (text) => void out.push(text),
    write: async (piece) => void out.push(piece),
    err: (text) => void err.push(text),
    input: async () => stdin,
    now,
    async openStore(flags) {
      if (flags.config === 'broken.yaml') {
        throw new ConfigProblems('broken.yaml', [{ path: 'port', message: 'must be a number' }]);
      }
      const store = await openStore(`sqlite:${folder}/cli.db`);
      const { database, directory, credentials, creditStore, keySpending, statements } = store;
      opened++;
      return {
        now,
        plans: () => ['pro'],
        directory,
        credentials,
        providers: new Map([
          [
            'openai',
            { byokBaseUrl: false, dialect: 'openai', baseUrl: 'https://api.openai.com/v1' },
          ],
          [
            'anthropic',
            { byokBaseUrl: true, dialect: 'anthropic', baseUrl: 'https://api.anthropic.com/v1' },
          ],
        ]),
        vault: () => Vault.open({ store: credentials, secrets: secretKeys(), isStart: false }),
        rotation: () => new SecretRotation(credentials, secretKeys()),
        control: {
          store: store.configObjects,
          vault: () => new ConfigVault(secretKeys()),
          base: () => builtIn,
          now,
          changed: async () => undefined,
        },
        audit: store.auditLog,
        currentConfig: async () => builtIn,
        ...noNetwork,
        rejectionReason: async (url) =>
          url.includes('public') ? null : 'The address is not public.',
        changed: () => undefined,
        skills: new SkillService({
          store: store.skills,
          builtIn: builtInSkills,
          now,
          onChanged: () => undefined,
        }),
        credits: creditStore,
        spending: keySpending,
        statements,
        requests: store.requestLog,
        runningRequests: store.runningRequests,
        verify: (...callbacks) => verifyLedger(database, ...callbacks),
        async close() {
          await database.close();
          opened--;
        },
      };
    },
    loadModels: async () => models,
    flush: async () => undefined,
  };
  const code = await runCommand(args, topics, environment);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

async function json(...args: string[]) {
  const { code, out, err } = await tollgate(...args, '--json');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out);
}

describe('help', () => {
  test.each([[[]], [['--help']], [['-h']], [['help']]])('lists all topics for %j', async (args) => {
    const { code, out } = await tollgate(...args);
    expect(code).toBe(0);
    for (const { name, summary } of topics)
      expect(out).toMatch(new RegExp(`  ${name} +${summary}`));
  });

  test('lists the commands and examples of a topic', async () => {
    const { out } = await tollgate('keys', '--help');
    expect(out).toContain('  rotate <key id>   Replace the secret of a key');
    expect(out).toContain('Examples:\n  tollgate keys create');
    expect((await tollgate('help', 'keys')).out).toBe(out);
  });

  test('lists the options of a command without opening the store', async () => {
    const { code, out } = await tollgate('credits', 'grant', '-h', '--config', 'broken.yaml');
    expect(code).toBe(0);
    expect(out).toContain('Usage: tollgate credits grant [options]');
    expect(out).toContain('Number of credits (required)');
    expect((await tollgate('help', 'credits', 'grant')).out).toBe(out);
    expect((await tollgate('credits', 'help', 'grant')).out).toBe(out);
    expect(await tollgate('help', 'credits', 'grnt')).toMatchObject({ code: 2 });
    expect((await tollgate('help', 'models')).out).toContain('Usage: tollgate models [options]');
    expect(out).toContain('--json');
    expect((await tollgate('models', '--help')).out).toContain('Usage: tollgate models [options]');
  });
});

describe('a usage error', () => {
  test.each([
    [['kyes'], 'There is no command "kyes"; did you mean "keys"? See "tollgate --help".'],
    [
      ['keys', 'lst'],
      'There is no command "lst"; did you mean "list"? See "tollgate keys --help".',
    ],
    [['keys', 'show'], '<key id> is missing. See "tollgate keys show --help".'],
    [['models', 'x'], 'Unexpected argument "x". See "tollgate models --help".'],
    [['tenants', 'list', '--config', 'broken.yaml'], 'broken.yaml: port must be a number'],
  ])('for %j exits with 2 and one sentence', async (args, err) => {
    expect(await tollgate(...args)).toEqual({ code: 2, out: '', err });
  });

  test('for a missing subcommand lists the subcommands', async () => {
    const { code, err } = await tollgate('keys');
    expect(code).toBe(2);
    expect(err).toContain('list, create, show, change, rotate, disable, enable, delete');
  });
});

describe('a failed command', () => {
  test.each([
    [
      ['keys', 'show', 'key_nothing'],
      'There is no key with this ID. Only the tenant "default" was searched. Set --tenant to ' +
        'search another.',
    ],
    [['keys', 'show', 'key_nothing', '--tenant', 'default'], 'There is no key with this ID.'],
    [
      ['byok', 'set', 'openai'],
      'There is no key on stdin. Run "tollgate byok set openai < key.txt".',
    ],
    [
      ['health', '--url', 'http://127.0.0.1:1'],
      'No gateway answers at http://127.0.0.1:1/readyz (ECONNREFUSED). Start a gateway with ' +
        '"tollgate serve", or set its URL with --url.',
    ],
    [['keys', 'list', '--tenant', 'nobody'], 'There is no tenant with this ID.'],
    [
      ['keys', 'create', '--name', 'a', '--limit', 'five'],
      'limit must be a whole number of at least 0, not "five".',
    ],
    [
      ['keys', 'create', '--name', 'a', '--cache', 'on'],
      'cache must be one of "off", "auto", "always", not "on".',
    ],
    [['credits', 'show', '--offset', 'x'], '--offset must be a whole number of at least 0.'],
    [
      ['credits', 'correct', '--amount', '-1'],
      'The wallet has 0 credits available; the correction takes 1 credit.',
    ],
    [['credits', 'grant', '--amount', '0'], 'amount must not be 0.'],
    [
      ['credits', 'correct', '--amount', '1'],
      'A correction must be negative. Write --amount -1, or use "tollgate credits grant".',
    ],
    [
      ['credits', 'grant', '--amount', '-1'],
      'A grant must be positive. Use "tollgate credits correct" to take credits back.',
    ],
  ])('exits with 1 and one sentence for %j', async (args, err) => {
    expect(await tollgate(...args)).toEqual({ code: 1, out: '', err });
  });

  test('closes the store', () => {
    expect(opened).toBe(0);
  });
});

describe('tollgate tenants', () => {
  test('creates, lists, renames, disables, and enables tenants', async () => {
    const created = await json('tenants', 'create', '--name', 'Acme Ltd', '--id', 'acme');
    expect(created.data).toMatchObject({ id: 'acme', name: 'Acme Ltd', disabled: false });
    expect((await tollgate('tenants', 'rename', 'acme', '--name', 'Acme')).out).toBe(
      'Tenant acme was renamed.',
    );
    expect((await tollgate('tenants', 'disable', 'acme')).out).toBe('Tenant acme is disabled.');
    expect((await tollgate('tenants', 'list')).out).toMatch(/\nacme +Acme +disabled +0 +0 +2026-/);
    await tollgate('tenants', 'enable', 'acme');
    expect((await json('tenants', 'show', 'acme')).data).toMatchObject({
      name: 'Acme',
      disabled: false,
      credits: { total: 0, held: 0, available: 0, leased: 0 },
    });
    expect((await tollgate('tenants', 'show', 'acme')).out).toMatch(/^name +Acme$/m);
  });

  test('sets limits and removes them with "default"', async () => {
    const args = ['--id', 'busy', '--name', 'Busy', '--concurrent-requests', '7'];
    expect((await tollgate('tenants', 'create', ...args)).out).toEndWith(
      'credits grant --tenant busy --amount 1000000',
    );
    const change = (...options: string[]) => tollgate('tenants', 'change', 'busy', ...options);
    expect((await change('--requests-per-minute', '1200')).out).toBe('Tenant busy was changed.');
    const { data: limited } = await json('tenants', 'show', 'busy');
    expect(limited).toMatchObject({ requests_per_minute: 1_200, concurrent_requests: 7 });
    await change('--concurrent-requests', 'default');
    const { out } = await tollgate('tenants', 'show', 'busy');
    expect(out).toMatch(/^requests per minute +1,200$/m);
    expect(out).toMatch(/^concurrent requests +default$/m);
    expect((await change('--requests-per-minute', '0')).code).toBe(1);
    expect((await change()).err).toStartWith(
      'Set at least one of these options: --requests-per-minute, ',
    );
  });
});

describe('tollgate keys', () => {
  test('creates, shows, disables, rotates, and deletes keys', async () => {
    const args = ['--limit', '500', '--limit-reset', 'monthly', '--models', 'demo/*,acme/chat'];
    const created = await tollgate('keys', 'create', '--name', 'CI', ...args);
    const [secret = ''] = /sk-tg-\w+-\w+/.exec(created.out) ?? [];
    const [id = ''] = /key_\w+/.exec(created.out) ?? [];
    expect(secret).toHaveLength(63);
    expect((await json('keys', 'show', id)).data).toMatchObject({
      id,
      limit: 500,
      limit_reset: 'monthly',
      models: ['demo/*', 'acme/chat'],
    });
    expect((await tollgate('keys', 'disable', id)).out).toBe(`Key ${id} is disabled.`);
    expect((await tollgate('keys', 'list')).out).not.toContain(id);
    const listed = await tollgate('keys', 'list', '--include-disabled');
    const row = `${id} +sk-tg-\\S+ +CI +disabled +0 +500 +500 +monthly +–`;
    expect(listed.out).toMatch(new RegExp(row));
    expect((await tollgate('keys', 'enable', id)).out).toBe(`Key ${id} is enabled.`);
    const rotated = await json('keys', 'rotate', id, '--overlap-seconds', '60');
    expect(rotated.data.id).toBe(id);
    expect(rotated.key).not.toBe(secret);
    expect(await json('keys', 'delete', id)).toEqual({ deleted: true });
    expect((await tollgate('keys', 'show', id)).code).toBe(1);
  });

  test('changes only the settings that have an option, and removes restrictions', async () => {
    const args = ['--limit', '500', '--limit-reset', 'daily', '--models', 'demo/*'];
    const { data: created } = await json('keys', 'create', '--name', 'CI', ...args);
    const change = (...options: string[]) => tollgate('keys', 'change', created.id, ...options);
    expect((await change('--limit', '900', '--scopes', 'chat')).out).toBe(
      `Key ${created.id} was changed.`,
    );
    const { data: changed } = await json('keys', 'show', created.id);
    expect(changed).toEqual({ ...created, limit: 900, limit_remaining: 900, scopes: ['chat'] });
    const removals = [
      ...['--limit', 'none', '--limit-reset', 'never', '--expires-at', 'never'],
      ...['--models', 'all', '--scopes', 'all'],
      ...['--requests-per-minute', 'default', '--cache', 'default'],
    ];
    const { data: unrestricted } = await json('keys', 'change', created.id, ...removals);
    expect(unrestricted).toMatchObject({
      name: 'CI',
      limit: null,
      limit_reset: null,
      models: null,
    });
    const { out } = await tollgate('keys', 'show', created.id);
    for (const [name, value] of [
      ['limit', 'none'],
      ['limit resets', 'never'],
      ['expires', 'never'],
      ['models', 'all'],
      ['scopes', 'all'],
      ['requests per minute', 'default'],
      ['cache', 'default'],
    ]) {
      expect(out).toMatch(new RegExp(`^${name} +${value}$`, 'm'));
    }
  });

  test('changes nothing if no option is set or one of them is invalid', async () => {
    const { data } = await json('keys', 'create', '--name', 'CI', '--limit', '500');
    expect(await tollgate('keys', 'change', data.id, '--tenant', 'default')).toEqual({
      code: 2,
      out: '',
      err:
        'Set at least one of these options: --name, --limit, --limit-reset, --expires-at, ' +
        '--models, --scopes, --requests-per-minute, --cache. See "tollgate keys change --help".',
    });
    const failed = await tollgate('keys', 'change', data.id, '--limit', 'all', '--name', 'x');
    expect(failed.err).toBe('limit must be a whole number of at least 0, not "all".');
    expect((await json('keys', 'show', data.id)).data).toEqual(data);
  });

  test('creates management keys', async () => {
    const { key } = await json('keys', 'create', '--name', 'boss', '--management');
    expect(key).toStartWith('sk-mgmt-');
  });
});

describe('tollgate credits', () => {
  test('grants once per idempotency key, corrects, and shows credits', async () => {
    await json('tenants', 'create', '--name', 'Rich', '--id', 'rich');
    const to = ['--tenant', 'rich', '--note', 'Invoice 12', '--idempotency-key', 'i12'];
    const grant = await tollgate('credits', 'grant', '--amount', '5000', ...to);
    expect(grant.out).toMatch(/^Entry \d+ \(5,000 credits\) was recorded\. New balance: 5,000\.$/);
    const again = await tollgate('credits', 'grant', '--amount', '5000', ...to);
    expect(again.out).toContain(
      'was already recorded; nothing changed. The balance after that entry was 5,000.',
    );
    await json('credits', 'correct', '--tenant', 'rich', '--amount', '-1');
    const { data } = await json('credits', 'show', '--tenant', 'rich');
    expect(data).toMatchObject({ total: 4999, entries: [{ amount: -1 }, { amount: 5000 }] });
    const shown = await tollgate('credits', 'show', '--tenant', 'rich');
    expect(shown.out).toMatch(/^total +4,999$/m);
    expect(shown.out).toMatch(/grant +5,000 +5,000 +Invoice 12$/m);
    const one = await tollgate('credits', 'grant', '--tenant', 'rich', '--amount', '1');
    expect(one.out).toMatch(/ \(1 credit\) was recorded\. New balance: 5,000\.$/);
  });
});

describe('tollgate byok', () => {
  test('saves a key from stdin, lists it with its last characters, and deletes it', async () => {
    stdin = '  sk-typed-0123456789abcd\n';
    const set = await tollgate('byok', 'set', 'openai');
    expect(set).toMatchObject({ code: 0, err: '' });
    expect(set.out).toBe('The key •••abcd was saved for openai (byok_first).');
    const shown = { provider: 'openai', label: '•••abcd', mode: 'byok_first', base_url: null };
    expect((await json('byok', 'list')).data).toMatchObject([shown]);
    expect((await tollgate('byok', 'list')).out).toMatch(/\nopenai +•••abcd +byok_first +– +2026-/);
    expect((await tollgate('byok', 'delete', 'openai')).out).toBe(
      'The key for openai was deleted.',
    );
    expect((await json('byok', 'list')).data).toEqual([]);
    expect((await tollgate('byok', 'delete', 'openai')).err).toContain('There is no saved key');
  });

  test('accepts the key, mode, base URL, and tenant as options', async () => {
    await json('tenants', 'create', '--name', 'Own', '--id', 'own');
    const options = ['--tenant', 'own', '--api-key', 'sk-option-0123456789', '--mode', 'byok_only'];
    const args = ['byok', 'set', 'anthropic', ...options];
    const { data } = await json(...args, '--base-url', 'https://public.example/v1/');
    expect(data).toMatchObject({ mode: 'byok_only', base_url: 'https://public.example/v1' });
    expect(await json('byok', 'delete', 'anthropic', '--tenant', 'own')).toEqual({
      deleted: true,
    });
    const rejected = await tollgate(...args, '--base-url', 'http://10.0.0.1');
    expect(rejected).toMatchObject({ code: 1, err: expect.stringContaining('not public') });
  });

  test.each([
    [['set', 'opnai', '--api-key', 'a'], 'There is no provider "opnai"; did you mean "openai"?'],
    [['set', 'openai', '--api-key', 'two words'], 'visible ASCII characters'],
    [['set', 'openai', '--api-key', 'sk-…'], 'visible ASCII characters'],
    [['set', 'openai', '--api-key', 'a', '--mode', 'both'], 'mode must be one of "byok_first"'],
    [['set', 'openai', '--api-key', 'a', '--base-url', 'https://public.example'], 'base_url'],
    [['set', 'openai', '--api-key', 'a', '--tenant', 'nobody'], 'There is no tenant'],
  ])('rejects %j without printing the key', async (args, message) => {
    const { code, err } = await tollgate('byok', ...args);
    expect(code).toBe(1);
    expect(err).toContain(message);
    expect(err).not.toContain('two words');
  });

  test('with the wrong secret key, lists and deletes keys but rejects new keys', async () => {
    await json('byok', 'set', 'openai', '--api-key', 'sk-first-0123456789');
    const original = secretKey;
    secretKey = 'another-secret-key-of-the-command-line';
    const failed = await tollgate('byok', 'set', 'anthropic', '--api-key', 'a');
    expect(failed.err).toStartWith("The secret key doesn't match");
    expect((await json('byok', 'list')).data.length).toBe(1);
    expect((await tollgate('byok', 'delete', 'openai')).code).toBe(0);
    secretKey = original;
  });
});

describe('tollgate secret', () => {
  test('counts provider keys and re-encrypts them with the new secret key', async () => {
    await json('byok', 'set', 'openai', '--api-key', 'sk-first-0123456789');
    const original = secretKey;
    previousKey = original;
    secretKey = 'another-secret-key-of-the-command-line';
    try {
      expect((await tollgate('secret', 'show')).out).toContain(': 0 encrypted with the current');
      expect((await json('secret', 'rotate')).data).toEqual({
        rotated: 1,
        current: 0,
        undecryptable: 0,
      });
      expect((await tollgate('secret', 'show')).out).toContain(': 1 encrypted with the current');
      expect((await tollgate('secret', 'rotate')).out).toContain(': 0 re-encrypted, 1 already');
      previousKey = null;
      expect((await json('secret', 'show')).data).toEqual({
        current: 1,
        previous: 0,
        undecryptable: 0,
      });
      await json('byok', 'set', 'anthropic', '--api-key', 'sk-second-0123456789');
      const unset = await tollgate('secret', 'rotate');
      expect([unset.code, unset.out]).toEqual([1, '']);
      expect(unset.err).toStartWith('TOLLGATE_PREVIOUS_SECRET_KEY is not set');
      secretKey = original;
      previousKey = 'a-secret-key-that-was-never-in-use-here';
      const failed = await tollgate('secret', 'rotate');
      expect([failed.code, failed.out]).toEqual([1, '']);
      expect(failed.err).toStartWith("The secret key doesn't match");
    } finally {
      secretKey = 'another-secret-key-of-the-command-line';
      previousKey = original;
      for (const name of ['openai', 'anthropic']) await tollgate('byok', 'delete', name);
      secretKey = original;
      previousKey = 'another-secret-key-of-the-command-line';
      await tollgate('secret', 'rotate');
      previousKey = null;
    }
  });
});

describe('tollgate models', () => {
  test('lists available models, or all of them with --all', async () => {
    const { out } = await tollgate('models');
    expect(out).toMatch(/\ndemo\/chat .* 0\.5 +1 +– +demo$/m);
    expect(out).not.toContain('acme/disabled');
    const { out: all } = await tollgate('models', '--all');
    expect(all).toMatch(/\nacme\/disabled .* 7 +8 +– +not configured: acme$/m);
    const { data } = await json('models', '--all');
    expect(data.slice(0, 2)).toMatchObject([
      { id: 'demo/chat', live: true, providers: ['demo'] },
      { id: 'acme/disabled', live: false, providers: ['acme'] },
    ]);
  });

  test('lists prices per minute, character, request, and image', async () => {
    const { out } = await tollgate('models');
    expect(out).toMatch(/\nacme\/ears .* – +– +0\.006 per minute +acme$/m);
    expect(out).toMatch(/\nacme\/voice .* – +– +0\.01 per request, 15 per M characters +acme$/m);
    expect(out).toMatch(/\nacme\/painter .* 5 +– +0\.04 per image +acme$/m);
  });
});
