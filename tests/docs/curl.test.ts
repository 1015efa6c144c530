/** Every curl of the documents, taken from its page and run: what a reader pastes is answered. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { mask, opaquePng } from '../support/images.ts';

const docs = join(import.meta.dir, '../../docs');
/** Where the pages say that Tollgate is. */
const pageUrl = 'http://127.0.0.1:8080';
/** For tests that start programs. */
const timeoutMs = 120_000;

/** clients.md has variables and a test of its own. */
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
  // A refusal is a failure, and the reader's own files are there.
  writeFileSync(join(folder, '.curlrc'), 'fail-with-body\nsilent\nshow-error\n');
  writeFileSync(join(folder, 'photo.png'), opaquePng(4, 2));
  writeFileSync(join(folder, 'sky.png'), mask(['####', '....']));
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
}, timeoutMs);

test('are on the pages of everything that a key can call', () => {
  const pages = new Set(blocks.map(({ name }) => name.split('.')[0]));
  expect([...pages].sort()).toEqual([
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
  '$name is answered',
  async ({ block }) => {
    expect(block).toContain(pageUrl);
    // A key at a provider is the reader's own, too.
    const typed = block.replaceAll(pageUrl, gateway.url).replaceAll('sk-…', 'sk-example');
    const child = Bun.spawn(['sh', '-euc', typed], {
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
    const [printed, complaints, exitCode] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    expect(exitCode === 0 ? '' : `${printed}${complaints}`).toBe('');
    expect(printed).not.toBe('');
  },
  timeoutMs,
);
