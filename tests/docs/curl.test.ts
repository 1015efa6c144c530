/** Runs every curl command of the docs. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { mask, opaquePng } from '../support/images.ts';

const docs = join(import.meta.dir, '../../docs');
/** The gateway's URL on the pages. */
const pageUrl = 'http://127.0.0.1:8080';
/** Enough for tests that start processes. */
const timeoutMs = 120_000;

/** The commands of all pages except clients.md, whose test is clients.test.ts. */
const blocks = readdirSync(docs)
  .filter((name) => name.endsWith('.md') && name !== 'clients.md')
  .flatMap((name) => {
    const text = readFileSync(join(docs, name), 'utf8');
    const found = [...text.matchAll(/^```\w*\n(curl [\s\S]*?)^```$/gm)];
    return found.map(([, block = ''], i) => ({ name: `${name} ${i + 1}`, block }));
  });

const folder = newFolder();
let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway();
  // Makes curl fail for HTTP errors. The images replace the reader's files.
  writeFileSync(join(folder, '.curlrc'), 'fail-with-body\nsilent\nshow-error\n');
  writeFileSync(join(folder, 'photo.png'), opaquePng(4, 2));
  writeFileSync(join(folder, 'sky.png'), mask(['####', '....']));
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
}, timeoutMs);

describe('curl commands of the docs', () => {
  test('are on every page about an endpoint', () => {
    const pages = new Set(blocks.map(({ name }) => name.split('.')[0]));
    expect([...pages].sort()).toEqual([
      'api',
      'audio',
      'caching',
      'embeddings',
      'images',
      'jobs',
      'keys',
      'messages',
      'responses',
      'skills',
    ]);
  });

  test.each(blocks)(
    'return an answer: $name',
    async ({ block }) => {
      expect(block).toContain(pageUrl);
      // Replaces the provider key that readers fill in.
      const command = block.replaceAll(pageUrl, gateway.url).replaceAll('sk-…', 'sk-example');
      const child = Bun.spawn(['sh', '-euc', command], {
        cwd: folder,
        env: {
          PATH: process.env.PATH ?? '',
          HOME: folder,
          TOLLGATE_KEY: gateway.keys.api,
          TOLLGATE_MANAGEMENT_KEY: gateway.keys.management,
        },
        stdout: 'pipe',
        stderr: 'pipe',
      });
      const [stdout, stderr, exitCode] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
        child.exited,
      ]);
      expect(exitCode === 0 ? '' : `${stdout}${stderr}`).toBe('');
      expect(stdout).not.toBe('');
    },
    timeoutMs,
  );
});
