import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { mp3File } from '../support/audio-files.ts';
import { desktop, openBrowser, Tab } from '../support/browser.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await startGateway();
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

const open = () => Tab.open(browser, { theme: 'light', size: desktop });

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
  'every kind of model shows a command that runs unchanged and a link to its requests',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/models');
    const folder = newFolder();
    await Bun.write(join(folder, 'recording.mp3'), mp3File(3));
    const runCommandOf = async (model: string) => {
      await page.goto(`${gateway.url}/dashboard/models?model=${model}`);
      const sheet = page.getByRole('dialog');
      const command = await sheet.getByLabel('command', { exact: true }).inputValue();
      const output = await runInShell(command, folder);
      await sheet.getByRole('link', { name: 'View requests' }).click();
      await page.getByText('1 to 1 of 1').waitFor();
      return output;
    };
    expect(await runCommandOf('demo/chat')).toContain('"object":"chat.completion"');
    expect(await runCommandOf('demo/embed')).toContain('"embedding":[');
    expect(await runCommandOf('demo/image')).toContain('"b64_json":');
    expect(await runCommandOf('demo/transcribe')).toContain('"text":');
    await runCommandOf('demo/speech');
    expect(Bun.file(join(folder, 'answer.mp3')).size).toBeGreaterThan(1_000);
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  'the playground copies an answer with its line breaks',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=demo/chat');
    await page.getByLabel('Your message').fill('Two\nlines');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    // Shown only briefly, so wait for it before clicking.
    const confirmation = page.getByText('Copied').waitFor();
    await page.getByRole('button', { name: 'Copy answer' }).click();
    await confirmation;
    expect(await page.evaluate('navigator.clipboard.readText()')).toContain('“Two\nlines”');
  },
  timeoutMs,
);
