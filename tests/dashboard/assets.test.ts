import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dashboardAssets, packDashboard } from '../../src/http/system/dashboard.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.stop());

/** Fetches a path and returns the body as sent, without decompressing it. */
async function fetchRaw(path: string, encoding = 'gzip') {
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
  const { bytes } = await fetchRaw('/dashboard');
  return [...textOf(bytes).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path);
}

test('the startup output shows the dashboard URL', () => {
  expect(gateway.output()).toContain(`Dashboard: ${gateway.url}/dashboard\n`);
});

test('the first load transfers less than 200 KB', async () => {
  const sizes: number[] = [(await fetchRaw('/dashboard')).bytes.length];
  for (const path of await assetPaths()) {
    const { response, bytes } = await fetchRaw(path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-encoding')).toBe('gzip');
    sizes.push(bytes.length);
  }
  expect(sizes).toHaveLength(4);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(200_000);
});

test('the content-security policy allows no inline and no third-party content', async () => {
  const { response, bytes } = await fetchRaw('/dashboard');
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

test('caches may store assets forever, but must revalidate the page', async () => {
  const { response } = await fetchRaw('/dashboard/logs');
  expect(response.headers.get('cache-control')).toBe('no-cache');
  expect(response.headers.get('content-type')).toStartWith('text/html');
  const [path = ''] = await assetPaths();
  const asset = (await fetchRaw(path)).response;
  expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
});

test('a client without gzip support gets uncompressed files', async () => {
  const plain = await fetchRaw('/dashboard', 'identity');
  expect(plain.response.headers.get('content-encoding')).toBeNull();
  expect(new TextDecoder().decode(plain.bytes)).toStartWith('<!doctype html>');
});

test('an unknown asset returns 404', async () => {
  const missing = await fetchRaw('/dashboard/assets/index-00000000.js');
  expect(missing.response.status).toBe(404);
});

test('a compiled executable serves the same files as the sources', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pack-'));
  try {
    const root = join(import.meta.dir, '../..');
    const pack = join(folder, 'tollgate-dashboard.pack');
    await Bun.write(pack, await packDashboard());
    await Bun.write(
      join(folder, 'main.ts'),
      `import { dashboardAssets } from '${join(root, 'src/http/system/dashboard.ts')}';
       const { page, files } = await dashboardAssets();
       const hashes = [...files].map(([name, { bytes }]) => [name, Bun.hash(bytes).toString()]);
       process.stdout.write(JSON.stringify([new TextDecoder().decode(page.bytes), hashes]));`,
    );
    const program = join(folder, 'program');
    await Bun.$`${process.execPath} build --compile main.ts ${pack} --outfile ${program}`
      .cwd(folder)
      .quiet();
    // Runs in another folder, so that it can't find the sources.
    const packed = await Bun.$`${program}`.cwd(tmpdir()).json();
    const { page, files } = await dashboardAssets();
    const hashes = [...files].map(([name, { bytes }]) => [name, Bun.hash(bytes).toString()]);
    expect(packed).toEqual([new TextDecoder().decode(page.bytes), hashes]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 120_000);
