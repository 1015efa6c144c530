/** Commands manage the configuration of the store, and move it to another one. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { fieldsOf, objectsIn, parseJson } from '../../src/core/json.ts';
import { parseCsv } from '../support/csv.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { type Finished, newFolder, run } from '../support/gateway.ts';

const testMs = 240_000;
const upstream = startFakeUpstream();
const [one, other] = [newFolder(), newFolder()];
afterAll(() => upstream.stop());

const secret = 'sk-scripted-0123456789';
const endpoint = { provider: 'acme', model: 'a', pricing: { prompt: '1', completion: '2' } };
const file = {
  limits: { requests_per_minute: 50 },
  providers: {
    acme: {
      dialect: 'openai',
      base_url: upstream.url,
      api_key: secret,
      headers: { 'x-a': secret },
    },
  },
  models: [
    {
      ...{ id: 'acme/a', name: 'A', input_modalities: ['text'], output_modalities: ['text'] },
      endpoints: [endpoint],
    },
  ],
};

const tollgate = (dataDir: string, args: readonly string[], env: Record<string, string> = {}) =>
  run(args, { dataDir, env });

function jsonIn({ stdout, stderr }: Finished) {
  const json = fieldsOf(parseJson(stdout));
  if (json.data === undefined) throw new Error(`There is no JSON: ${stdout} ${stderr}`);
  return json.data;
}

beforeAll(async () => {
  const path = join(one, 'import.yaml');
  writeFileSync(path, JSON.stringify(file));
  const { exitCode, stdout, stderr } = await tollgate(one, ['config', 'import', path]);
  expect([exitCode, stderr, stdout.trim().split('\n')]).toEqual([
    0,
    '',
    ['+ setting limits.requests_per_minute', '+ provider acme', '+ model acme/a'],
  ]);
}, testMs);

test(
  'config export and import give another store the same configuration',
  async () => {
    const masked = await tollgate(one, ['config', 'export']);
    expect(masked.stdout).not.toContain(secret);
    const headers = { 'x-a': `\${ACME_HEADERS_X_A}` };
    const placeholders = { api_key: `\${ACME_API_KEY}`, headers };
    const exported = { ...file, providers: { acme: { ...file.providers.acme, ...placeholders } } };
    expect(parse(masked.stdout)).toEqual(exported);
    const path = join(other, 'store.yaml');
    writeFileSync(path, masked.stdout);

    // The store that has the secrets needs no variables.
    const same = await tollgate(one, ['config', 'diff', path, '--replace']);
    expect([same.stdout, same.stderr]).toEqual(['', 'Nothing changes.\n']);
    const missing = await tollgate(other, ['config', 'import', path]);
    expect(missing.exitCode).toBe(1);
    expect(missing.stderr).toContain('needs the environment variable ACME_API_KEY');
    const env = { ACME_API_KEY: secret, ACME_HEADERS_X_A: secret };
    const imported = await tollgate(other, ['config', 'import', path], env);
    expect(imported.exitCode).toBe(0);
    const both = await Promise.all(
      [one, other].map((folder) => tollgate(folder, ['config', 'export', '--secrets'])),
    );
    expect(both.map(({ stdout }) => parse(stdout))).toEqual([file, file]);
  },
  testMs,
);

test(
  'an import changes all objects or none',
  async () => {
    const path = join(one, 'broken.yaml');
    const broken = {
      ...file,
      limits: { requests_per_minute: 7 },
      models: [{ ...file.models[0], endpoints: [{ ...endpoint, provider: 'none' }] }],
    };
    writeFileSync(path, JSON.stringify(broken));
    const rejected = await tollgate(one, ['config', 'import', path]);
    expect(rejected.exitCode).toBe(1);
    expect(rejected.stderr).toContain('endpoints[0].provider names "none"');
    const shown = await tollgate(one, ['settings', 'show', 'limits.requests_per_minute']);
    expect(jsonIn(shown)).toMatchObject({ owner: 'store', config: { value: 50 } });
    writeFileSync(path, JSON.stringify({ server: { port: 80 } }));
    const port = await tollgate(one, ['config', 'import', path]);
    expect(port.stderr).toContain("server.port can't be imported");
  },
  testMs,
);

test(
  'commands change, test, and delete objects, and are in the audit log',
  async () => {
    const timeout = ['settings', 'set', 'limits.concurrent_requests', '--value', '9', '--json'];
    expect(jsonIn(await tollgate(one, timeout))).toMatchObject({ config: { value: 9 } });
    const used = await tollgate(one, ['providers', 'delete', 'acme']);
    expect([used.exitCode, used.stderr]).toEqual([1, expect.stringContaining('model "acme/a"')]);
    const old = await tollgate(one, [
      'settings',
      'delete',
      'limits.concurrent_requests',
      '--version',
      '1',
    ]);
    expect(old.stderr).toContain('was changed by');
    const rotation = ['providers', 'rotate', 'acme', '--api-key', 'sk-rotated-0123456789'];
    const rotated = await tollgate(one, rotation);
    const { api_key, previous_key } = fieldsOf(fieldsOf(jsonIn(rotated)).config);
    expect([api_key, fieldsOf(previous_key).key]).toEqual(['•••6789', '•••6789']);
    const tested = await tollgate(one, ['providers', 'test', 'acme', '--one-token']);
    expect([tested.exitCode, tested.stderr]).toEqual([0, '']);
    expect(tested.stdout).toMatch(
      /^KEY .*\napi_key +works +200 .*\napi_key \(previous\) +works +200 /,
    );
    const free = await tollgate(one, ['providers', 'test', 'acme', '--key', 'api_key']);
    expect([free.exitCode, free.stderr]).not.toEqual([0, '']);
    const log = objectsIn(jsonIn(await tollgate(one, ['audit', '--json', '--action', 'setting.'])));
    expect(log.map(({ action, origin }) => [action, origin])).toEqual([
      ['setting.create', 'cli'],
      ['setting.create', 'cli'],
    ]);
  },
  testMs,
);

test(
  'models, doctor, and byok know the providers and models of the store',
  async () => {
    const models = objectsIn(jsonIn(await tollgate(one, ['models', '--json'])));
    expect(models.find(({ id }) => id === 'acme/a')).toMatchObject({ live: true });
    const findings = objectsIn(jsonIn(await tollgate(one, ['doctor', '--json'])));
    const found = (name: string) => findings.find((finding) => finding.name === name);
    expect(found('configuration')?.found).toContain('objects in the store');
    expect(found('provider acme, key api_key')).toBeDefined();
    await tollgate(one, ['tenants', 'create', '--id', 'team', '--name', 'Team']);
    const key = ['--tenant', 'team', '--api-key', 'sk-own-0123456789', '--json'];
    const saved = await tollgate(one, ['byok', 'set', 'acme', ...key]);
    expect(jsonIn(saved)).toMatchObject({ provider: 'acme' });
  },
  testMs,
);

test(
  'audit prints pages, and everything as CSV',
  async () => {
    const page = async (...args: string[]) => {
      const { stdout } = await tollgate(one, ['audit', '--json', ...args]);
      const { data, next_before } = fieldsOf(parseJson(stdout));
      return { entries: objectsIn(data), next: next_before };
    };
    const { entries: all, next: end } = await page();
    expect([all.length > 3, end]).toEqual([true, null]);
    const first = await page('--limit', '2');
    expect([first.entries, first.next]).toEqual([all.slice(0, 2), all[1]?.id]);
    const second = await page('--limit', '2', '--before', String(first.next));
    expect(second.entries).toEqual(all.slice(2, 4));
    const { stdout } = await tollgate(one, ['audit', '--csv']);
    const [header = [], ...rows] = parseCsv(stdout);
    expect(rows.map((row) => Number(row[header.indexOf('id')]))).toEqual(
      all.map(({ id }) => Number(id)),
    );
    const wrong = await tollgate(one, ['audit', '--limit', 'all']);
    expect(wrong.stderr).toContain('--limit must be a whole number from 1 to 10000.');
  },
  testMs,
);
