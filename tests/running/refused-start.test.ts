/** A failed startup prints each problem once, without secrets. */
import { describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Finished, newFolder, run, startGateway } from '../support/gateway.ts';

const startMs = 120_000;

const model = {
  name: 'Any',
  input_modalities: ['text'],
  output_modalities: ['text'],
};
const pricing = { prompt: '1', completion: '2' };

/** Expects one sentence on stderr, without a stack trace or a secret. */
function expectOneSentence({ exitCode, stdout, stderr }: Finished): void {
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^[A-Z][^\n]+\.\n$/);
  expect(stderr).not.toMatch(/\.ts:\d|Error:|node_modules|hunter2/);
  expect(exitCode).toBe(1);
}

describe('an invalid configuration', () => {
  test(
    'with 5 mistakes prints 5 lines with the path and the expected value',
    async () => {
      const { exitCode, stdout, stderr } = await run(['serve'], {
        config: {
          server: { port: 'eighty' },
          limits: { request_per_minute: 5 },
          providers: {
            mine: {
              dialect: 'openai',
              base_url: 'http://127.0.0.1:1/v1',
              api_key: '${' + 'NO_SUCH_KEY}',
            },
          },
          models: [
            { ...model, id: 'a/one', endpoints: [{ provider: 'mien', model: 'x', pricing }] },
            { ...model, id: 'a/two', endpoints: [{ provider: 'mine', model: 'x' }] },
          ],
        },
      });
      expect(stderr.trimEnd().split('\n')).toEqual([
        'tollgate.yaml: providers.mine.api_key needs the environment variable NO_SUCH_KEY, ' +
          'which is not set',
        'tollgate.yaml: server.port must be a whole number from 0 to 65535, not "eighty"',
        'tollgate.yaml: limits.request_per_minute is not a known field; ' +
          'did you mean "requests_per_minute"?',
        'tollgate.yaml: models[0].endpoints[0].provider names "mien", which is not a configured ' +
          'provider; did you mean "mine"?',
        'tollgate.yaml: models[1].endpoints[0].pricing needs prompt and completion; ' +
          'use "0" for what is free',
      ]);
      expect(stdout).toBe('');
      expect(exitCode).toBe(2);
    },
    startMs,
  );

  test(
    'with a different credits_per_usd than the ledger is rejected without losing data',
    async () => {
      const first = await startGateway({ config: { credits_per_usd: 1000, demo: true } });
      await first.stop();
      const { dataDir } = first;
      const rejected = await run(['serve', '--port', '0'], { dataDir, config: { demo: true } });
      expect([rejected.exitCode, rejected.stdout, rejected.stderr]).toEqual([
        2,
        '',
        "tollgate.yaml: credits_per_usd can't change from 1000 to 1000000, because the ledger " +
          'already has entries\n',
      ]);
      await using again = await first.another();
      expect(await again.balance()).toBe(10_000_000);
    },
    startMs,
  );

  test(
    'with a missing provider key prevents startup, but not the management commands',
    async () => {
      const dataDir = newFolder();
      const config = {
        providers: { groq: { api_key: '${' + 'NO_SUCH_KEY}' } },
        models: [
          { ...model, id: 'a/one', endpoints: [{ provider: 'openai', model: 'x', pricing }] },
        ],
      };
      for (const args of [
        ['tenants', 'create', '--id', 'acme', '--name', 'Acme'],
        ['credits', 'grant', '--tenant', 'acme', '--amount', '500'],
        ['keys', 'create', '--tenant', 'acme', '--name', 'first'],
        ['ledger', 'verify'],
        ['ledger', 'statement', '--tenant', 'acme'],
        ['byok', 'list', '--tenant', 'acme', '--json'],
        ['skills', 'list', '--tenant', 'acme'],
      ]) {
        const { exitCode, stderr } = await run(args, { dataDir, config });
        expect([args.join(' '), exitCode, stderr]).toEqual([args.join(' '), 0, '']);
      }
      const { exitCode, stderr } = await run(['serve'], { dataDir, config });
      expect(stderr.trimEnd().split('\n')).toEqual([
        'tollgate.yaml: providers.groq.api_key needs the environment variable NO_SUCH_KEY, ' +
          'which is not set',
        'tollgate.yaml: models[0].endpoints[0].provider names "openai", which is not a ' +
          'configured provider: set OPENAI_API_KEY or providers.openai.api_key',
      ]);
      expect(exitCode).toBe(2);
    },
    startMs,
  );

  test(
    'that is not YAML is reported with its line and column',
    async () => {
      const { exitCode, stderr } = await run(['serve'], { config: 'server: {\nport: ]' });
      expect(exitCode).toBe(2);
      expect(stderr).toMatch(/^tollgate\.yaml: line \d+, column \d+: \S/);
      expect(stderr).not.toMatch(/\.ts:\d/);
    },
    startMs,
  );

  test(
    'is reported without the credentials it contains',
    async () => {
      const { exitCode, stderr } = await run(['serve'], {
        config: {
          redis: 'rediss//:hunter2@cache.example',
          providers: {
            one: 'sk-hunter2',
            two: { dialect: 'openai', base_url: 'htps://me:hunter2@api.example' },
            three: { dialect: 'openai', base_url: 'https://a.example', api_key: ['hunter2'] },
            four: { dialect: 'openai', base_url: 'https://me:hunter2@api.example' },
          },
          tools: { web_search: 'hunter2' },
        },
        env: {
          DATABASE_URL: 'mysql://me:hunter2@db.example/x',
          TOLLGATE_ADMIN_TOKEN: 'sk-admin-hunter2',
        },
      });
      expect(exitCode).toBe(2);
      expect(stderr.trimEnd().split('\n')).toHaveLength(8);
      expect(stderr).not.toContain('hunter2');
    },
    startMs,
  );
});

describe('serve exits with 1 and one sentence for', () => {
  test(
    'an occupied port',
    async () => {
      const occupant = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
      try {
        const finished = await run(['serve', '--port', String(occupant.port)]);
        expectOneSentence(finished);
        expect(finished.stderr).toContain(`Port ${occupant.port} on 127.0.0.1 is already in use`);
        expect(finished.stderr).not.toContain(`serve --port ${occupant.port}"`);
      } finally {
        occupant.stop(true);
      }
    },
    startMs,
  );

  test.each(['no-such-host.invalid', '192.0.2.1', '[::1]', '127.0.0.1 ', ' '])(
    'an address that this machine does not have: %p',
    async (host) => {
      const finished = await run(['serve', '--host', host, '--port', '0']);
      expectOneSentence(finished);
      expect(finished.stderr).toContain(
        `"${host}" isn't an address of this machine. Set --host to `,
      );
    },
    startMs,
  );

  test.each([
    [
      'has a file instead of a folder in its path',
      (path: string) => writeFileSync(path, 'a file'),
      'deep/data',
    ],
    ['has a folder named like the database', createFolderAsDatabase, ''],
    ['has an invalid database file', createInvalidDatabase, ''],
    ['has a file named like the journal folder', createFileAsJournal, ''],
  ] as const)(
    'a data directory that %s',
    async (_, prepare, subfolder) => {
      const path = join(newFolder(), 'data');
      prepare(path);
      const dataDir = join(path, subfolder);
      const finished = await run(['serve', '--port', '0'], { dataDir });
      expectOneSentence(finished);
      expect(finished.stderr).toContain(dataDir);
    },
    startMs,
  );
});

test.each([
  ['ledger', 'verify'],
  ['keys', 'list'],
])(
  'tollgate %s %s fails in a folder without a database and creates nothing there',
  async (topic, command) => {
    const dataDir = join(newFolder(), 'dtaa');
    const finished = await run([topic, command], { dataDir });
    expectOneSentence(finished);
    expect(finished.stderr).toContain(`There is no database at ${dataDir}/tollgate.db. `);
    expect(existsSync(dataDir)).toBe(false);
  },
  startMs,
);

test(
  'tollgate tenants create works before the first start',
  async () => {
    const dataDir = join(newFolder(), 'new');
    const created = await run(['tenants', 'create', '--id', 'acme', '--name', 'Acme'], { dataDir });
    expect([created.exitCode, created.stderr]).toEqual([0, '']);
    const listed = await run(['tenants', 'list'], { dataDir });
    expect(listed.stdout).toContain('acme');
  },
  startMs,
);

test(
  'a first start on an occupied port creates no secrets, so the next start prints them',
  async () => {
    const occupant = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
    const dataDir = join(newFolder(), 'data');
    const rejected = await run(['serve', '--port', String(occupant.port)], { dataDir });
    occupant.stop(true);
    expect(rejected.exitCode).toBe(1);
    await using gateway = await startGateway({ dataDir });
    expect(gateway.keys.api).toStartWith('sk-tg-');
  },
  startMs,
);

function createFolderAsDatabase(path: string): void {
  mkdirSync(join(path, 'tollgate.db'), { recursive: true });
}

function createFileAsJournal(path: string): void {
  mkdirSync(path);
  writeFileSync(join(path, 'journal'), 'a file');
}

function createInvalidDatabase(path: string): void {
  mkdirSync(path);
  writeFileSync(
    join(path, 'tollgate.db'),
    'not a database, but long enough to look like one'.repeat(99),
  );
}
