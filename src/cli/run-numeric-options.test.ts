import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseJson } from '../core/json.ts';
import { commandEnvironment } from './process.ts';
import { runCommand } from './run.ts';
import { topics } from './topics.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-numbers-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function tollgate(...words: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand([...words, '--data-dir', folder, '--json'], topics, {
    ...commandEnvironment,
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
  });
  return { code, told: parseJson(out.join('')), err: err.join('') };
}

test('a tenant is created with its limits', async () => {
  const limits = ['--requests-per-minute', '30', '--concurrent-requests', '4'];
  const { told } = await tollgate('tenants', 'create', '--name', 'Acme', '--id', 'acme', ...limits);
  expect(told).toMatchObject({
    data: { id: 'acme', requests_per_minute: 30, concurrent_requests: 4 },
  });
});

test('an old secret keeps working for a week at most', async () => {
  await tollgate('tenants', 'create', '--name', 'Default', '--id', 'default');
  const { told } = await tollgate('keys', 'create', '--name', 'app');
  const { id } = (told as { data: { id: string } }).data;
  const rotate = (seconds: string) => tollgate('keys', 'rotate', id, '--overlap-seconds', seconds);
  expect(await rotate('604800')).toMatchObject({ code: 0, err: '' });
  const { code, err } = await rotate('604801');
  expect(code).toBe(1);
  expect(err).toContain('overlap_seconds must be a whole number from 0 to 604800, not 604801');
});
