/** Commands compare prices with public lists, and change prices and plans. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { fieldsOf, objectsIn, parseJson } from '../../src/core/json.ts';
import { newFolder, run } from '../support/gateway.ts';

const testMs = 240_000;
const folder = newFolder();
const configFile = join(folder, 'tollgate.yaml');
const listFile = join(folder, 'list.json');

const model = (id: string, prompt: string) => ({
  ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'] },
  endpoints: [{ provider: 'acme', model: id.slice(5), pricing: { prompt, completion: '10' } }],
});
const entry = (input: number) => ({
  ...{ litellm_provider: 'acme', mode: 'chat' },
  ...{ input_cost_per_token: input, output_cost_per_token: 1e-5 },
});
const list = JSON.stringify({
  'acme/in-file': entry(3e-6),
  'acme/in-store': entry(1.5e-7),
  'acme/huge': entry(2e-3),
  'acme/bad': entry(-1),
});

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch({ url }) {
    const { pathname } = new URL(url);
    if (pathname === '/list.json') return new Response(list);
    if (pathname === '/moved') return Response.redirect('/list.json?token=secret', 302);
    return new Response('none', { status: 404 });
  },
});
afterAll(() => server.stop(true));

const tollgate = (...args: string[]) =>
  run([...args, '--config', configFile], { dataDir: folder, env: {} });
const dataOf = ({ stdout }: { readonly stdout: string }) => fieldsOf(parseJson(stdout)).data;

beforeAll(async () => {
  writeFileSync(listFile, list);
  const settings = {
    private_addresses: ['127.0.0.1'],
    providers: { acme: { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: null } },
    models: [model('acme/in-file', '2')],
  };
  writeFileSync(configFile, JSON.stringify(settings));
  const stored = join(folder, 'store.yaml');
  const models = [model('acme/in-store', '0.10'), model('acme/huge', '2'), model('acme/bad', '2')];
  writeFileSync(
    stored,
    JSON.stringify({ models, plans: { pro: { factor_basis_points: 12_000 } } }),
  );
  const imported = await tollgate('config', 'import', stored);
  expect([imported.exitCode, imported.stderr]).toEqual([0, '']);
}, testMs);

const cellsOf = (table: string) =>
  table
    .trim()
    .split('\n')
    .map((line) => line.split(/ {2,}/));

describe('prices check', () => {
  test(
    'shows what differs, and exits with 3',
    async () => {
      const checked = await tollgate('prices', 'check', listFile);
      expect([checked.exitCode, cellsOf(checked.stdout).slice(0, 4)]).toEqual([
        3,
        [
          ['MODEL', 'PROVIDER', 'FIELD', 'IN FORCE', 'LIST', 'CHANGE', 'SET BY'],
          ['acme/in-file', 'acme', 'prompt', '2', '3', '+50%', configFile],
          ['acme/huge', 'acme', 'prompt', '2', '2000', '+99900%, check this', 'store'],
          ['acme/in-store', 'acme', 'prompt', '0.10', '0.15', '+50%', 'store'],
        ],
      ]);
      expect(checked.stdout).toContain('input_cost_per_token is negative: "-1"');
    },
    testMs,
  );

  test(
    'downloads the list, prints JSON, and writes changes to edit',
    async () => {
      const path = join(folder, 'changes.yaml');
      const options = ['--model', 'acme/in-store', '--json', '--write', path];
      const checked = await tollgate('prices', 'check', `${server.url}moved`, ...options);
      expect([checked.exitCode, dataOf(checked)]).toMatchObject([
        3,
        {
          ...{ format: 'litellm', matched: 1, unlisted: [], unlisted_providers: [] },
          source: { name: `LiteLLM: ${server.url}moved` },
          differences: [
            {
              ...{ model: 'acme/in-store', provider: 'acme', upstream_model: 'in-store' },
              prices: [{ name: 'prompt', before: '0.10', after: '0.15', large: false }],
            },
          ],
        },
      ]);
      const written = readFileSync(path, 'utf8');
      expect(written).toContain('# prompt: 0.10 -> 0.15\n');
      const [price] = objectsIn(fieldsOf(parse(written)).prices);
      expect(price).toMatchObject({ model: 'acme/in-store', pricing: { prompt: '0.15' } });
      const diff = await tollgate('config', 'diff', path);
      const name = `acme/in-store@acme@${price?.from}`;
      expect([diff.exitCode, diff.stdout]).toEqual([0, `+ price ${name}\n`]);
    },
    testMs,
  );
});

describe('prices apply', () => {
  test(
    'saves what can be approved, with its source, and says what it leaves out',
    async () => {
      const from = '2099-01-01T00:00:00Z';
      const applied = await tollgate('prices', 'apply', listFile, '--all', '--from', from);
      expect([applied.exitCode, applied.stderr.trim().split('\n')]).toEqual([
        0,
        [
          `Left out: acme/in-file at acme is set in ${configFile}; change it there.`,
          'Left out: acme/bad at acme has a price that can\'t be used: input_cost_per_token is negative: "-1".',
          'Left out: acme/huge at acme changes prompt so much that it may be a mistake; add --force to apply it.',
          `1 price changed from ${from} on.`,
        ],
      ]);
      const history = await tollgate('prices', 'history', 'acme/in-store', '--json');
      expect(objectsIn(dataOf(history))).toMatchObject([
        { state: 'in_force', owner: 'store', pricing: { prompt: '0.10' }, price_source: null },
        {
          ...{ state: 'scheduled', owner: 'store', from: '2099-01-01T00:00:00.000Z' },
          pricing: { prompt: '0.15', completion: '10' },
          price_source: { name: `LiteLLM: ${listFile}`, dated: 'price', age_days: 0 },
        },
      ]);
      const log = await tollgate('audit', '--json', '--action', 'price.');
      expect(objectsIn(dataOf(log))).toMatchObject([
        { action: 'price.create', target: `acme/in-store@acme@${from}`, origin: 'cli' },
      ]);
    },
    testMs,
  );
});

describe('prices schedule', () => {
  test(
    'changes one price, and leaves the others as they are',
    async () => {
      const options = ['--from', '2098-01-01T00:00:00Z', '--prompt', '7', '--source', 'a letter'];
      const { exitCode } = await tollgate('prices', 'schedule', 'acme/huge', ...options);
      expect(exitCode).toBe(0);
      const shown = await tollgate('prices', 'list', '--all', '--model', 'acme/huge');
      expect(cellsOf(shown.stdout).slice(1)).toEqual([
        ['acme/huge', 'acme', 'in force', '–', '2', '10', '–', 'store', '–', '–'],
        [
          ...['acme/huge', 'acme', 'scheduled', '2098-01-01 00:00', '7', '10', '–'],
          ...['store', '–', '–'],
        ],
      ]);
    },
    testMs,
  );
});

describe('plans', () => {
  test(
    'are assigned to tenants, and can not be deleted then',
    async () => {
      await tollgate('tenants', 'create', '--name', 'Acme', '--id', 'acme');
      const assigned = await tollgate('plans', 'assign', 'pro', '--tenant', 'acme');
      expect(assigned.stdout).toBe('The tenant "acme" has the plan "pro".\n');
      const used = await tollgate('plans', 'delete', 'pro');
      const message = 'The plan "pro" is the plan of 1 tenant. Give them another plan first.\n';
      expect([used.exitCode, used.stderr]).toEqual([1, message]);
      const listed = await tollgate('plans', 'list');
      expect(cellsOf(listed.stdout)[1]?.slice(0, 4)).toEqual([
        ...['pro', 'store', '1', '120% of list prices'],
      ]);
    },
    testMs,
  );
});
