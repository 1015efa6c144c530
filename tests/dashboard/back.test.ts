import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desk, openBrowser, Tab } from '../support/browser.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

/** What the browser itself offers: the name of a tab, and the button that leads back. */

const patienceMs = 120_000;

let gateway: Gateway;
let browser: Browser;
let requestId: string;

beforeAll(async () => {
  gateway = await startGateway({ config: { demo: true } });
  const asked = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hi' }] };
  requestId = (await gateway.chat(asked)).headers.get('x-request-id') ?? '';
  browser = await openBrowser();
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

async function see(who: 'api' | 'management' | 'admin', path: string): Promise<Tab> {
  const tab = await Tab.open(browser, { theme: 'light', size: desk });
  await tab.signIn(gateway.url, gateway.keys[who], path);
  await tab.settled();
  return tab;
}

describe('the name of a tab', () => {
  test(
    'says that a receipt is open, from the first moment on, and where one is afterwards',
    async () => {
      await using tab = await see('management', `/logs?request=${requestId}`);
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
      await page.getByRole('dialog').getByRole('link', { name: 'Its requests' }).click();
      await receipt.or(page.getByRole('heading', { level: 1, name: 'Logs' })).waitFor();
      expect(await page.title()).toBe('Logs · Tollgate');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key or admin token').waitFor();
      expect(await page.title()).toBe('Sign in · Tollgate');
    },
    patienceMs,
  );

  test(
    'follows one dialog into the next',
    async () => {
      await using tab = await see('management', '/keys?create=1');
      const { page } = tab;
      expect(await page.title()).toBe('Create a key · Keys · Tollgate');
      await page.getByLabel('Name').fill('Named');
      await page.getByRole('button', { name: 'Create', exact: true }).click();
      await page.getByRole('dialog', { name: 'The secret of Named' }).waitFor();
      expect(await page.title()).toBe('The secret of Named · Keys · Tollgate');
    },
    patienceMs,
  );
});

describe('the way back', () => {
  test(
    'from the last of two dialogs leads to the button that opened the first',
    async () => {
      await using tab = await see('management', '/keys');
      const { page } = tab;
      await page.getByRole('button', { name: 'Create a key' }).press('Enter');
      await page.getByRole('textbox', { name: 'Name' }).fill('Followed');
      await page.getByRole('button', { name: 'Create', exact: true }).press('Enter');
      const secret = page.getByRole('dialog', { name: 'The secret of Followed' });
      await secret.getByLabel('I have stored it').press('Space');
      await secret.getByRole('button', { name: 'Done' }).press('Enter');
      await secret.waitFor({ state: 'detached' });
      await page.locator('button:focus').getByText('Create a key').waitFor();
    },
    patienceMs,
  );

  test.each([
    ['management', '/logs', 'demo/chat'],
    ['api', '/models', 'demo/chat'],
    ['management', '/skills', 'json-only'],
  ] as const)(
    'for %s on %s does not open again what was closed, however often one pressed Escape',
    async (who, path, opener) => {
      await using tab = await see(who, '/credits');
      const { page } = tab;
      await page.locator(`#navigation a[href$="${path}"]`).click();
      const at = `${gateway.url}/dashboard${path}`;
      const cell = page.getByRole('cell', { name: opener }).first();
      await (path === '/skills' ? cell.getByRole('button') : cell).click();
      await page.getByRole('dialog').waitFor();
      expect(page.url()).toStartWith(`${at}?`);
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.waitForURL(at);
      await page.goBack();
      await page.waitForURL(`${gateway.url}/dashboard/credits`);
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test.each([
    ['management', `/keys`, 'Create a key'],
    ['management', `/byok`, 'Add an account'],
    ['admin', `/operator`, 'Create a tenant'],
    ['api', `/jobs`, 'Start a job'],
  ] as const)(
    'for %s on %s closes a form, and a form from a link closes too',
    async (who, path, verb) => {
      await using tab = await see(who, path);
      const { page } = tab;
      const at = `${gateway.url}/dashboard${path}`;
      await page.getByRole('button', { name: verb }).click();
      await page.getByRole('dialog').waitFor();
      const link = page.url();
      expect(link).not.toBe(at);
      await page.goBack();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(page.url()).toBe(at);
      await page.goto(link);
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(page.url()).toBe(at);
    },
    patienceMs,
  );

  test.each([
    ['management', '/keys', 'Create a key'],
    ['admin', '/operator', 'Create a tenant'],
  ] as const)(
    'for %s on %s leaves the page at the first try after a form was saved',
    async (who, path, opener) => {
      await using tab = await see(who, `${path}?search=before`);
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
    patienceMs,
  );

  test(
    'out of a playground without a model leads to those that its key may call',
    async () => {
      const body = { name: 'narrow', models: ['demo/embed'] };
      const made = await gateway.manage('POST', '/api/v1/keys', body);
      await using tab = await Tab.open(browser, { theme: 'light', size: desk });
      const { page } = tab;
      await tab.signIn(gateway.url, (JSON.parse(made.text) as { key: string }).key, '/playground');
      await page.getByText('No chat model can be called with this key').waitFor();
      await page.getByRole('link', { name: 'which ones can' }).click();
      await page.getByRole('cell', { name: 'demo/embed' }).waitFor();
      expect(await page.getByRole('table', { name: 'Models' }).locator('tbody tr').count()).toBe(1);
    },
    patienceMs,
  );

  test(
    'out of a filter that lets nothing through stands below it',
    async () => {
      await using tab = await see('api', '/logs?model=none&status=error');
      const { page } = tab;
      await page.getByText('No request matches').waitFor();
      await page.getByRole('link', { name: 'Show all of the last 30 days' }).click();
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('');
      expect(page.url()).toBe(`${gateway.url}/dashboard/logs`);
    },
    patienceMs,
  );
});
