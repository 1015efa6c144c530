import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { mp3File } from '../support/audio-files.ts';
import { desk, openBrowser, Tab } from '../support/browser.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';

/** What people take out of a page and use elsewhere. */

const patienceMs = 120_000;

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await startGateway();
  browser = await openBrowser();
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

const open = () => Tab.open(browser, { theme: 'light', size: desk });

async function runInShell(command: string, folder: string): Promise<string> {
  const child = Bun.spawn(['sh', '-c', command], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', TOLLGATE_KEY: gateway.keys.api },
    stdout: 'pipe',
    stderr: 'ignore',
  });
  return new Response(child.stdout).text();
}

test(
  'every kind of model has a command that runs as it is, and a way to its requests',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/models');
    const folder = newFolder();
    await Bun.write(join(folder, 'recording.mp3'), mp3File(3));
    const ask = async (model: string) => {
      await page.goto(`${gateway.url}/dashboard/models?model=${model}`);
      const sheet = page.getByRole('dialog');
      const command = await sheet.getByLabel('command', { exact: true }).inputValue();
      const said = await runInShell(command, folder);
      await sheet.getByRole('link', { name: 'Its requests' }).click();
      await page.getByText('1 to 1 of 1').waitFor();
      return said;
    };
    expect(await ask('demo/chat')).toContain('"object":"chat.completion"');
    expect(await ask('demo/embed')).toContain('"embedding":[');
    expect(await ask('demo/image')).toContain('"b64_json":');
    expect(await ask('demo/transcribe')).toContain('"text":');
    await ask('demo/speech');
    expect(Bun.file(join(folder, 'answer.mp3')).size).toBeGreaterThan(1_000);
    expect(tab.problems).toEqual([]);
  },
  patienceMs,
);

test(
  'an answer of the playground is copied as it was said',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=demo/chat');
    await page.getByLabel('Your message').fill('Two\nlines');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    // Said for a moment only, and looked for from before it is said.
    const said = page.getByText('Copied').waitFor();
    await page.getByRole('button', { name: 'Copy the answer' }).click();
    await said;
    expect(await page.evaluate('navigator.clipboard.readText()')).toContain('“Two\nlines”');
  },
  patienceMs,
);
