import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addTenant } from '../../tests/contracts/engines.ts';
import { openStore } from '../store/open.ts';
import { commandEnvironment } from './process.ts';
import { runCommand } from './run.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-lists-'));
let tenantId: string;

async function tollgate(...words: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...words, '--data-dir', folder], topics, {
    ...commandEnvironment,
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
  });
  return { code, out, err };
}

beforeAll(async () => {
  const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
  tenantId = await addTenant(store);
  await store.database.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ['keys list', [], 'There are no enabled keys.'],
  ['keys list', ['--include-disabled'], 'There are no keys.'],
  ['keys list', ['--include-disabled', '--offset', '5'], 'There are no more keys.'],
  ['byok list', [], 'There are no keys of providers.'],
])('%s %p of a tenant that has none says so, and prints no row', async (command, more, told) => {
  const found = await tollgate(...command.split(' '), '--tenant', tenantId, ...more);
  expect(found).toEqual({ code: 0, out: [], err: [told] });
});

test('a page behind the last tenant says so', async () => {
  const found = await tollgate('tenants', 'list', '--offset', '1');
  expect(found).toEqual({ code: 0, out: [], err: ['There are no more tenants.'] });
});

test('the help of serve shows what people may set', async () => {
  const { out } = await tollgate('serve', '--help');
  const options = out.join('\n').match(/--[a-z-]+/g);
  expect(options).toEqual(expect.arrayContaining(['--port', '--workers', '--config']));
  expect(options).not.toContain('--worker');
  expect(options).not.toContain('--joining');
});
