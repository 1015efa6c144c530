import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packDashboard } from '../../src/http/system/dashboard.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

/** The files of the dashboard, as a browser gets them. */

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.stop());

/** Bytes as they travel. */
async function fetched(path: string, encoding = 'gzip') {
  const response = await fetch(gateway.url + path, {
    headers: { 'accept-encoding': encoding },
    decompress: false,
  });
  return { response, bytes: new Uint8Array(await response.arrayBuffer()) };
}

function textOf(bytes: Uint8Array<ArrayBuffer>): string {
  return new TextDecoder().decode(Bun.gunzipSync(bytes));
}

async function assetPaths(): Promise<string[]> {
  const { bytes } = await fetched('/dashboard');
  return [...textOf(bytes).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path);
}

test('its address is printed at the start', () => {
  expect(gateway.output()).toContain(`Dashboard: ${gateway.url}/dashboard\n`);
});

test('the first load is at most 200 KB, compressed', async () => {
  const sizes: number[] = [(await fetched('/dashboard')).bytes.length];
  for (const path of await assetPaths()) {
    const { response, bytes } = await fetched(path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-encoding')).toBe('gzip');
    sizes.push(bytes.length);
  }
  expect(sizes).toHaveLength(4);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(200_000);
});

test('nothing inline, nothing from elsewhere, no cookie', async () => {
  const { response, bytes } = await fetched('/dashboard');
  const policy = response.headers.get('content-security-policy') ?? '';
  const rules = new Map(policy.split('; ').map((rule) => [rule.split(' ')[0], rule]));
  expect(rules.get('default-src')).toBe("default-src 'none'");
  expect(rules.get('script-src')).toBe("script-src 'self'");
  expect(rules.get('style-src')).toBe("style-src 'self'");
  expect(rules.get('connect-src')).toBe("connect-src 'self'");
  expect(rules.get('frame-ancestors')).toBe("frame-ancestors 'none'");
  expect(policy).not.toContain('unsafe');
  expect(policy).not.toContain('http');
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  expect(response.headers.get('referrer-policy')).toBe('no-referrer');
  expect(response.headers.get('set-cookie')).toBeNull();
  const html = textOf(bytes);
  expect(html).not.toMatch(/<script(?![^>]* src=)|<style| style=| on\w+=/);
  expect(await assetPaths()).toEqual(expect.arrayContaining([expect.stringMatching(/\.js$/)]));
  for (const path of await assetPaths()) expect(path).toStartWith('/dashboard/assets/');
});

test('files are kept for ever, the page is asked for each time', async () => {
  const { response } = await fetched('/dashboard/logs');
  expect(response.headers.get('cache-control')).toBe('no-cache');
  expect(response.headers.get('content-type')).toStartWith('text/html');
  const [path = ''] = await assetPaths();
  const asset = (await fetched(path)).response;
  expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
});

test('a client that cannot unpack gets plain files; an unknown file is a 404', async () => {
  const plain = await fetched('/dashboard', 'identity');
  expect(plain.response.headers.get('content-encoding')).toBeNull();
  expect(new TextDecoder().decode(plain.bytes)).toStartWith('<!doctype html>');
  const missing = await fetched('/dashboard/assets/index-00000000.js');
  expect(missing.response.status).toBe(404);
});

test('it can be packed into a single executable', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pack-'));
  try {
    const root = join(import.meta.dir, '../..');
    const pack = join(folder, 'tollgate-dashboard.pack');
    await Bun.write(pack, await packDashboard());
    await Bun.write(
      join(folder, 'main.ts'),
      `import { dashboardAssets } from '${join(root, 'src/http/system/dashboard.ts')}';
       const { page, files } = await dashboardAssets();
       const sizes = [...files].map(([name, { bytes }]) => [name, bytes.length]);
       process.stdout.write(JSON.stringify([new TextDecoder().decode(page.bytes), sizes]));`,
    );
    const program = join(folder, 'program');
    await Bun.$`${process.execPath} build --compile main.ts ${pack} --outfile ${program}`
      .cwd(folder)
      .secondary();
    // Somewhere else, so that no source can be found by chance.
    const [page, sizes] = await Bun.$`${program}`.cwd(tmpdir()).json();
    const { bytes } = await fetched('/dashboard');
    expect(page).toBe(textOf(bytes));
    for (const path of await assetPaths()) {
      const size = Bun.gunzipSync((await fetched(path)).bytes).length;
      expect(sizes).toContainEqual([path.slice('/dashboard/assets/'.length), size]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 120_000);
