import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, Tab } from '../support/browser.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;

let gateway: Gateway;
let browser: Browser;
let requestId: string;

beforeAll(async () => {
  gateway = await startGateway({ config: { demo: true } });
  const body = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hi' }] };
  requestId = (await gateway.chat(body)).headers.get('x-request-id') ?? '';
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

async function openAs(who: 'api' | 'management' | 'admin', path: string): Promise<Tab> {
  const tab = await Tab.open(browser, { theme: 'light', size: desktop });
  await tab.signIn(gateway.url, gateway.keys[who], path);
  await tab.settled();
  return tab;
}

describe('the tab title', () => {
  test(
    'names the open dialog before the page',
    async () => {
      await using tab = await openAs('management', `/logs?request=${requestId}`);
      const { page } = tab;
      const receipt = page.getByRole('dialog', { name: 'Receipt' });
      expect(await page.title()).toBe('Receipt · Logs · Tollgate');
      await page.keyboard.press('Escape');
      await receipt.waitFor({ state: 'detached' });
      expect(await page.title()).toBe('Logs · Tollgate');
      await page.getByRole('cell', { name: 'demo/chat' }).first().click();
      await receipt.waitFor();
      expect(await page.title()).toBe('Receipt · Logs · Tollgate');
      await page.goBack();
      await receipt.waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'Models' }).click();
      await page.getByRole('button', { name: 'Demo Chat' }).click();
      await page.getByRole('dialog').waitFor();
      expect(await page.title()).toBe('Demo Chat · Models · Tollgate');
      await page.getByRole('dialog').getByRole('link', { name: 'View requests' }).click();
      await receipt.or(page.getByRole('heading', { level: 1, name: 'Logs' })).waitFor();
      expect(await page.title()).toBe('Logs · Tollgate');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key or admin token').waitFor();
      expect(await page.title()).toBe('Sign in · Tollgate');
    },
    timeoutMs,
  );

  test(
    'changes when one dialog replaces another',
    async () => {
      await using tab = await openAs('management', '/keys?create=1');
      const { page } = tab;
      expect(await page.title()).toBe('Create a key · Keys · Tollgate');
      await page.getByLabel('Name').fill('Named');
      await page.getByRole('button', { name: 'Create', exact: true }).click();
      await page.getByRole('dialog', { name: 'Secret of Named' }).waitFor();
      expect(await page.title()).toBe('Secret of Named · Keys · Tollgate');
    },
    timeoutMs,
  );
});

describe('the focus', () => {
  test(
    'returns to the button that opened the first dialog when the second one closes',
    async () => {
      await using tab = await openAs('management', '/keys');
      const { page } = tab;
      await page.getByRole('button', { name: 'Create a key' }).press('Enter');
      await page.getByRole('textbox', { name: 'Name' }).fill('Followed');
      await page.getByRole('button', { name: 'Create', exact: true }).press('Enter');
      const secret = page.getByRole('dialog', { name: 'Secret of Followed' });
      await secret.getByLabel("I've saved it").press('Space');
      await secret.getByRole('button', { name: 'Done' }).press('Enter');
      await secret.waitFor({ state: 'detached' });
      await page.locator('button:focus').getByText('Create a key').waitFor();
    },
    timeoutMs,
  );
});

describe('the Back button', () => {
  test.each([
    ['management', '/logs', 'demo/chat'],
    ['api', '/models', 'demo/chat'],
    ['management', '/skills', 'json-only'],
  ] as const)(
    'does not reopen a dialog closed with Escape (%s key, %s)',
    async (who, path, opener) => {
      await using tab = await openAs(who, '/credits');
      const { page } = tab;
      await page.locator(`#navigation a[href$="${path}"]`).click();
      const pageUrl = `${gateway.url}/dashboard${path}`;
      const cell = page.getByRole('cell', { name: opener }).first();
      await (path === '/skills' ? cell.getByRole('button') : cell).click();
      await page.getByRole('dialog').waitFor();
      expect(page.url()).toStartWith(`${pageUrl}?`);
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.waitForURL(pageUrl);
      await page.goBack();
      await page.waitForURL(`${gateway.url}/dashboard/credits`);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test.each([
    ['management', '/keys', 'Create a key'],
    ['management', '/byok', 'Add a provider key'],
    ['admin', '/operator', 'Create a tenant'],
    ['api', '/jobs', 'Start a job'],
  ] as const)(
    'closes a form, and Cancel closes a form opened by its URL (%s key, %s)',
    async (who, path, opener) => {
      await using tab = await openAs(who, path);
      const { page } = tab;
      const pageUrl = `${gateway.url}/dashboard${path}`;
      await page.getByRole('button', { name: opener }).click();
      await page.getByRole('dialog').waitFor();
      const link = page.url();
      expect(link).not.toBe(pageUrl);
      await page.goBack();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(page.url()).toBe(pageUrl);
      await page.goto(link);
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(page.url()).toBe(pageUrl);
    },
    timeoutMs,
  );

  test.each([
    ['management', '/keys', 'Create a key'],
    ['admin', '/operator', 'Create a tenant'],
  ] as const)(
    'leaves the page instead of reopening a saved form (%s key, %s)',
    async (who, path, opener) => {
      await using tab = await openAs(who, `${path}?search=before`);
      const { page } = tab;
      await page.goto(`${gateway.url}/dashboard${path}`);
      await page.getByRole('button', { name: opener }).click();
      const form = page.getByRole('dialog', { name: opener });
      await form.getByLabel('Name').fill('Saved');
      await form.getByRole('button', { name: 'Create', exact: true }).click();
      await form.waitFor({ state: 'detached' });
      await page.waitForURL(`${gateway.url}/dashboard${path}`);
      await page.getByRole('row', { name: /Saved/ }).waitFor();
      await page.goBack();
      await page.waitForURL(`${gateway.url}/dashboard${path}?search=before`);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );
});

describe('an empty page', () => {
  test(
    'links from a playground without chat models to the models that the key can call',
    async () => {
      const body = { name: 'narrow', models: ['demo/embed'] };
      const created = await gateway.manage('POST', '/api/v1/keys', body);
      await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
      const { page } = tab;
      await tab.signIn(
        gateway.url,
        (JSON.parse(created.text) as { key: string }).key,
        '/playground',
      );
      await page.getByText("This key can't call any chat models").waitFor();
      await page.getByRole('link', { name: 'which models it can call' }).click();
      await page.getByRole('cell', { name: 'demo/embed' }).waitFor();
      expect(await page.getByRole('table', { name: 'Models' }).locator('tbody tr').count()).toBe(1);
    },
    timeoutMs,
  );

  test(
    'links from a filter without matches to all requests',
    async () => {
      await using tab = await openAs('api', '/logs?model=none&status=error');
      const { page } = tab;
      await page.getByText('No matching requests').waitFor();
      await page.getByRole('link', { name: 'Show all requests of the last 30 days' }).click();
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('');
      expect(page.url()).toBe(`${gateway.url}/dashboard/logs`);
    },
    timeoutMs,
  );
});
