/** A start that cannot be: everything that is wrong is said once, plainly, without secrets. */
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

/** One sentence for a person, and nothing for a debugger or a thief. */
function expectOneSentence({ exitCode, stdout, stderr }: Finished): void {
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^[A-Z][^\n]+\.\n$/);
  expect(stderr).not.toMatch(/\.ts:\d|Error:|node_modules|hunter2/);
  expect(exitCode).toBe(1);
}

describe('a wrong configuration', () => {
  test(
    'with five mistakes prints five lines, each with its path and what would be right',
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
          'write "0" if it is free',
      ]);
      expect(stdout).toBe('');
      expect(exitCode).toBe(2);
    },
    startMs,
  );

  test(
    'with another worth of a credit than the ledger has is refused, and nothing is lost',
    async () => {
      const first = await startGateway({ config: { credits_per_usd: 1000, demo: true } });
      await first.stop();
      const { dataDir } = first;
      const refused = await run(['serve', '--port', '0'], { dataDir, config: { demo: true } });
      expect([refused.exitCode, refused.stdout, refused.stderr]).toEqual([
        2,
        '',
        "tollgate.yaml: credits_per_usd can't change from 1000 to 1000000: the ledger has entries\n",
      ]);
      await using again = await first.another();
      expect(await again.balance()).toBe(10_000_000);
    },
    startMs,
  );

  test(
    'for want of a provider’s key stops the gateway, not the books',
    async () => {
      const dataDir = newFolder();
      const config = {
        providers: { groq: { api_key: '${' + 'NO_SUCH_KEY}' } },
        models: [
          { ...model, id: 'a/one', endpoints: [{ provider: 'openai', model: 'x', pricing }] },
        ],
      };
      for (const words of [
        ['tenants', 'create', '--id', 'acme', '--name', 'Acme'],
        ['credits', 'grant', '--tenant', 'acme', '--amount', '500'],
        ['keys', 'create', '--tenant', 'acme', '--name', 'first'],
        ['ledger', 'verify'],
        ['ledger', 'statement', '--tenant', 'acme'],
        ['byok', 'list', '--tenant', 'acme', '--json'],
        ['skills', 'list', '--tenant', 'acme'],
      ]) {
        const { exitCode, stderr } = await run(words, { dataDir, config });
        expect([words.join(' '), exitCode, stderr]).toEqual([words.join(' '), 0, '']);
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
    'is told by the line when it is not YAML at all',
    async () => {
      const { exitCode, stderr } = await run(['serve'], { config: 'server: {\nport: ]' });
      expect(exitCode).toBe(2);
      expect(stderr).toMatch(/^tollgate\.yaml: line \d+, column \d+: \S/);
      expect(stderr).not.toMatch(/\.ts:\d/);
    },
    startMs,
  );

  test(
    'never repeats a credential in the complaint about it',
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

describe('one sentence and exit code 1 for', () => {
  test(
    'an occupied port',
    async () => {
      const holder = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
      try {
        const finished = await run(['serve', '--port', String(holder.port)]);
        expectOneSentence(finished);
        expect(finished.stderr).toContain(`Port ${holder.port} on 127.0.0.1 is already in use`);
        expect(finished.stderr).not.toContain(`serve --port ${holder.port}"`);
      } finally {
        holder.stop(true);
      }
    },
    startMs,
  );

  test.each(['no-such-host.invalid', '192.0.2.1', '[::1]', '127.0.0.1 ', ' '])(
    'an address that this machine does not have: %p',
    async (host) => {
      const finished = await run(['serve', '--host', host, '--port', '0']);
      expectOneSentence(finished);
      expect(finished.stderr).toContain(`"${host}" is no address of this machine; set --host to `);
    },
    startMs,
  );

  test.each([
    ['lies below a file', (at: string) => writeFileSync(at, 'a file'), 'deep/data'],
    ['holds something else under the name of the database', makeFolderAsDatabase, ''],
    ['holds a database that is none', makeBrokenDatabase, ''],
    ['holds a file in place of the journal', makeFileAsJournal, ''],
  ] as const)(
    'a data folder that %s',
    async (_, prepare, below) => {
      const at = join(newFolder(), 'place');
      prepare(at);
      const dataDir = join(at, below);
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
  'tollgate %s %s in a mistyped folder says so and makes nothing there',
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
  'tollgate tenants create may come before the first start',
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
  'a first start on an occupied port loses no secrets: the next one prints them',
  async () => {
    const holder = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
    const dataDir = join(newFolder(), 'data');
    const refused = await run(['serve', '--port', String(holder.port)], { dataDir });
    holder.stop(true);
    expect(refused.exitCode).toBe(1);
    await using gateway = await startGateway({ dataDir });
    expect(gateway.keys.api).toStartWith('sk-tg-');
  },
  startMs,
);

function makeFolderAsDatabase(at: string): void {
  mkdirSync(join(at, 'tollgate.db'), { recursive: true });
}

function makeFileAsJournal(at: string): void {
  mkdirSync(at);
  writeFileSync(join(at, 'journal'), 'a file');
}

function makeBrokenDatabase(at: string): void {
  mkdirSync(at);
  writeFileSync(
    join(at, 'tollgate.db'),
    'not a database, but long enough to look like one'.repeat(99),
  );
}
