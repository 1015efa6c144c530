import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addTenant } from '../../tests/contracts/engines.ts';
import { openStore } from '../store/open.ts';
import { commandEnvironment } from './command-environment.ts';
import { runCommand } from './dispatch.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-lists-'));
let tenantId: string;

async function tollgate(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...args, '--data-dir', folder], topics, {
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
  ['byok list', [], 'There are no provider keys.'],
])('%s %p prints an empty list as a sentence on stderr', async (command, options, sentence) => {
  const result = await tollgate(...command.split(' '), '--tenant', tenantId, ...options);
  expect(result).toEqual({ code: 0, out: [], err: [sentence] });
});

test('tenants list says on stderr that a page after the last one is empty', async () => {
  const result = await tollgate('tenants', 'list', '--offset', '1');
  expect(result).toEqual({ code: 0, out: [], err: ['There are no more tenants.'] });
});

test('serve --help lists the public options only', async () => {
  const { out } = await tollgate('serve', '--help');
  const options = out.join('\n').match(/--[a-z-]+/g);
  expect(options).toEqual(expect.arrayContaining(['--port', '--workers', '--config']));
  expect(options).not.toContain('--worker');
  expect(options).not.toContain('--joining');
});
