import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseJson } from '../core/json.ts';
import { commandEnvironment } from './command-environment.ts';
import { runCommand } from './dispatch.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-numbers-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function tollgate(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...args, '--data-dir', folder, '--json'], topics, {
    ...commandEnvironment,
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
  });
  return { code, output: parseJson(out.join('')), err: err.join('') };
}

test('tenants create sets limits from numeric options', async () => {
  const limits = ['--requests-per-minute', '30', '--concurrent-requests', '4'];
  const create = ['tenants', 'create', '--name', 'Acme', '--id', 'acme'];
  const { output } = await tollgate(...create, ...limits);
  expect(output).toMatchObject({
    data: { id: 'acme', requests_per_minute: 30, concurrent_requests: 4 },
  });
});

test('keys rotate accepts an overlap of up to a week', async () => {
  await tollgate('tenants', 'create', '--name', 'Default', '--id', 'default');
  const { output } = await tollgate('keys', 'create', '--name', 'app');
  const { id } = (output as { data: { id: string } }).data;
  const rotate = (seconds: string) => tollgate('keys', 'rotate', id, '--overlap-seconds', seconds);
  expect(await rotate('604800')).toMatchObject({ code: 0, err: '' });
  const { code, err } = await rotate('604801');
  expect(code).toBe(1);
  expect(err).toContain('overlap_seconds must be a whole number from 0 to 604800, not 604801');
});
