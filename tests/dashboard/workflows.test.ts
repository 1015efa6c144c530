import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { desktop, openBrowser, phone, Tab } from '../support/browser.ts';
import { chatAnswer, startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { waitUntil } from '../support/wait-until.ts';

const timeoutMs = 120_000;
const script = '<img src=x onerror="alert(1)"><script>alert(2)</script>';

const upstream = startFakeUpstream();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  upstream.script('up-broken', status500());
  upstream.script(
    'up-good',
    chatAnswer('Good day!', { usage: { prompt: 1_200, completion: 340 }, cachedTokens: 200 }),
  );
  upstream.script('up-hostile', chatAnswer(script, { usage: { prompt: 1, completion: 1 } }));
  gateway = await startGateway({
    config: { demo: true },
    upstreams: {
      first: { url: upstream.url, models: { 'acme/chat': { name: 'up-broken' } } },
      second: {
        url: upstream.url,
        models: {
          'acme/chat': {
            name: 'up-good',
            prompt: '2',
            completion: '10',
            pricing: { cache_read: '0.50' },
          },
          'acme/hostile': { name: 'up-hostile', model: { name: script, description: script } },
        },
      },
    },
  });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream.stop();
});

/** Waits until the gateway rejects a key, which takes up to a second after a revocation. */
async function untilRejected(key: string): Promise<void> {
  await waitUntil(async () => (await gateway.call('GET', '/v1/key', { key })).status === 401, {
    everyMs: 50,
  });
}

const open = (theme: 'light' | 'dark' = 'light') => Tab.open(browser, { theme, size: desktop });

async function createKey(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByRole('button', { name: 'Create a key' }).click();
  const form = page.getByRole('dialog', { name: 'Create a key' });
  await form.getByLabel('Name').fill('Story');
  await form.getByLabel('Credit limit').fill('20000');
  await form.getByRole('button', { name: 'Create' }).click();

  const secretDialog = page.getByRole('dialog', { name: 'Secret of Story' });
  const secret = await secretDialog.getByLabel('secret').inputValue();
  const copied = page.evaluate(`new Promise((resolve) => {
    addEventListener('copy', () => resolve(getSelection().toString()), { once: true });
    // Browsers block the Clipboard API on pages without TLS.
    navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'));
  })`);
  // Shown only briefly, so wait for it before clicking.
  const confirmation = secretDialog.getByText('Copied').waitFor();
  await secretDialog.getByRole('button', { name: 'Copy secret' }).click();
  await confirmation;
  expect(await copied).toBe(secret);
  expect(secret).toMatch(/^sk-tg-[0-9a-z]+-[0-9a-z]+$/);
  expect(await secretDialog.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true);
  await secretDialog.getByRole('button', { name: 'Try it in the playground' }).click();
}

async function readReceipt(page: Page): Promise<void> {
  const receipt = page.getByRole('dialog', { name: 'Receipt' });
  const bill = receipt.getByRole('table', { name: 'Charge breakdown' });
  await bill.waitFor();
  const lines = await bill.getByRole('row').allInnerTexts();
  expect(lines.map((line) => line.replaceAll(/\s+/g, ' ').trim())).toEqual([
    'Input 1,000 × $2.00 per million 2,000',
    'Cached input 200 × $0.50 per million 100',
    'Output 340 × $10.00 per million 3,400',
    'Model charge rounded up once 5,500',
    'Total charged (credits) 5,500',
  ]);
  const attempts = await receipt.locator('.attempts > li').allInnerTexts();
  expect(attempts).toHaveLength(2);
  expect(attempts[0]).toContain('first');
  expect(attempts[0]).toContain('server error (500)');
  expect(attempts[1]).toContain('second');
  expect(attempts[1]).toContain('answered');
  await receipt.getByRole('button', { name: 'Show generation record' }).click();
  const record = receipt.getByLabel('generation record');
  expect(await record.inputValue()).toContain('"total_cost": 5500');
  await receipt.getByRole('button', { name: 'Close' }).click();
}

describe('a management key', () => {
  test(
    'creates a key, calls a model with it, and follows the charge to the statement',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management);

      await createKey(page);
      await page.getByLabel('Model', { exact: true }).selectOption('acme/chat');
      await page.getByLabel('Your message').fill('Hello!');
      await page.getByRole('button', { name: 'Send' }).click();
      const answer = page.locator('.turn.assistant');
      await answer.getByText('Good day!').waitFor();
      // 1,000 input, 200 cached, and 340 output tokens at $2, $0.50, and $10 per million are
      // 2,000 + 100 + 3,400 credits.
      await answer.getByText('5,500 credits').waitFor();
      await answer.getByRole('link', { name: 'Receipt' }).click();

      await readReceipt(page);
      const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
      expect(await rows.nth(1).innerText()).toContain('5,500');

      await page.getByRole('link', { name: 'Overview' }).click();
      await page
        .getByRole('button', { name: /^Spend/ })
        .getByText('5,500')
        .waitFor();
      const groups = page.getByRole('table', { name: 'Usage by model' });
      expect(await groups.getByRole('row').nth(1).innerText()).toContain('5,500');

      await page.getByRole('link', { name: 'Credits' }).click();
      const months = page.getByRole('table', { name: 'Statements by month' });
      const month = await months.getByRole('row').nth(1).innerText();
      expect(month).toContain('−5,500');
      expect(month).toContain('9,994,500');
      const saving = page.waitForEvent('download');
      await months.getByRole('button', { name: 'Download CSV' }).click();
      const file = await (await saving).path();
      expect(await Bun.file(file).text()).toContain('-5500');

      await page.getByRole('link', { name: 'Keys', exact: true }).click();
      const own = page.getByRole('row', { name: /Story/ });
      expect(await own.innerText()).toContain('5,500 of 20,000');
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'rotates a key with overlap, disables it, and deletes it',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const { text } = await gateway.manage('POST', '/api/v1/keys', { name: 'Turned' });
      const { key, data } = JSON.parse(text) as { key: string; data: { id: string } };
      const statusOf = async (secret: string) =>
        (await gateway.call('GET', '/v1/key', { key: secret })).status;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys');
      await page.getByRole('button', { name: 'Rotate Turned' }).click();
      await page.getByLabel('Old secret').selectOption('86400');
      await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
      const dialog = page.getByRole('dialog', { name: 'Secret of Turned' });
      const fresh = await dialog.getByLabel('secret').inputValue();
      await dialog.getByLabel("I've saved it").check();
      await dialog.getByRole('button', { name: 'Done' }).click();
      expect(fresh).not.toBe(key);
      expect([await statusOf(key), await statusOf(fresh)]).toEqual([200, 200]);

      await page.getByRole('button', { name: 'Disable Turned' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
      await page.getByRole('row', { name: /Turned/ }).waitFor({ state: 'detached' });
      await untilRejected(fresh);

      await page.getByLabel('Show disabled keys').check();
      await page.getByRole('button', { name: 'Delete Turned' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('row', { name: /Turned/ }).waitFor({ state: 'detached' });
      expect((await gateway.manage('GET', `/api/v1/keys/${data.id}`)).status).toBe(404);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );
});

describe('access', () => {
  const menuOf = async (tab: Tab) =>
    (await tab.page.locator('#navigation a').allInnerTexts()).map((text) => text.trim());

  test(
    'shows no key management to a routing key',
    async () => {
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys.api, '/keys');
      await tab.page.getByText('Sign in with a management key').waitFor();
      const menu = await menuOf(tab);
      expect(menu).toContain('Playground');
      expect(menu).not.toContain('Keys');
      expect(menu).not.toContain('Provider keys');
      expect(tab.requests.filter((url) => url.includes('/api/v1/'))).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'opens the first allowed page for a key without the scope for reports',
    async () => {
      const { text } = await gateway.manage('POST', '/api/v1/keys', {
        name: 'c',
        scopes: ['chat'],
      });
      await using tab = await open();
      await tab.signIn(gateway.url, (JSON.parse(text) as { key: string }).key);
      await tab.page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
      expect(await menuOf(tab)).toEqual(['Models', 'Playground', 'Explain a route']);
      await tab.settled();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    "shows only the operator's pages to the admin token",
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.admin);
      await page.getByRole('heading', { level: 1, name: 'Operator' }).waitFor();
      expect(await menuOf(tab)).toEqual([
        ...['Operator', 'Configuration', 'Prices', 'Audit log', 'Explain a route'],
      ]);
      await page.getByRole('button', { name: 'Create a tenant' }).click();
      await page.getByRole('dialog').getByLabel('Name').fill('Acme Ltd');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      await page.getByRole('button', { name: 'Credits: Acme Ltd' }).click();
      await page.getByLabel('Credits to add').fill('750');
      await page.getByRole('button', { name: 'Apply' }).click();
      const row = page.getByRole('row', { name: /Acme Ltd/ });
      await row.getByText('750', { exact: true }).waitFor();
      const providers = page.getByRole('table', { name: 'Providers and their endpoints' });
      expect(await providers.getByRole('row', { name: /up-good/ }).innerText()).toContain(
        'healthy',
      );
      await page.getByText('Unbooked requests').waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'lets the operator create, disable, and delete the keys of a tenant',
    async () => {
      await gateway.admin('POST', '/admin/v1/tenants', { id: 'initech', name: 'Initech' });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.admin, '/operator?search=initech');
      await page.getByRole('link', { name: 'Keys: Initech' }).click();
      await page.getByRole('heading', { level: 1, name: 'Keys of initech' }).waitFor();
      await page.getByText('No keys yet').waitFor();
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByRole('dialog').getByLabel('Name').fill('Leaked');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      const secretDialog = page.getByRole('dialog', { name: 'Secret of Leaked' });
      const secret = await secretDialog.getByLabel('secret').inputValue();
      await secretDialog.getByLabel("I've saved it").check();
      await secretDialog.getByRole('button', { name: 'Done' }).click();
      await page.getByRole('button', { name: 'Disable Leaked' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
      await page.getByRole('row', { name: /Leaked/ }).waitFor({ state: 'detached' });
      await untilRejected(secret);
      await page.getByLabel('Show disabled keys').check();
      await page.getByRole('button', { name: 'Delete Leaked' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByText('No keys yet').waitFor();
      await page.getByRole('link', { name: 'All tenants' }).click();
      await page.getByRole('heading', { level: 1, name: 'Operator' }).waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'hides the data of a tenant from a management key of another tenant',
    async () => {
      const created = await gateway.admin('POST', '/admin/v1/tenants', {
        id: 'other',
        name: 'Other',
      });
      expect(created.status).toBe(201);
      const path = '/admin/v1/tenants/other/keys';
      const { text } = await gateway.admin('POST', path, { name: 'boss', management: true });
      await gateway.chat({ model: 'demo/chat', messages: [{ role: 'user', content: 'Hi' }] });
      await using tab = await open();
      await tab.signIn(gateway.url, (JSON.parse(text) as { key: string }).key, '/logs');
      await tab.page.getByText('No requests in the last 30 days').waitFor();
      await tab.page.getByRole('link', { name: 'Keys', exact: true }).click();
      const rows = tab.page.getByRole('table', { name: 'Keys' }).getByRole('row');
      await rows.nth(1).waitFor();
      expect(await rows.count()).toBe(2);
      expect(await rows.nth(1).innerText()).toContain('boss');
    },
    timeoutMs,
  );
});

describe('text from models and clients', () => {
  test(
    'is never run as a script if it is a model name, a log field, or an answer',
    async () => {
      await gateway.chat({ model: script, messages: [{ role: 'user', content: 'x' }] });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByRole('cell', { name: script }).first().click();
      const receipt = page.getByRole('dialog', { name: 'Receipt' });
      await receipt.getByText(script, { exact: true }).waitFor();
      await receipt.getByText(`There is no model "${script}"`).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: 'Models' }).click();
      await page.getByRole('button', { name: script }).click();
      await page.getByRole('dialog').getByText(script).first().waitFor();
      await page.getByRole('link', { name: 'Try it in the playground' }).click();
      await page.getByLabel('Your message').fill(script);
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('.turn.assistant').getByText(script).waitFor();
      await page.locator('.turn.user').getByText(script).waitFor();
      expect(await page.locator('main img, main script').count()).toBe(0);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );
});

describe('the session', () => {
  test(
    'stores the key only in this tab, and deletes it when the user signs out',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/models');
      await tab.settled();
      await page.reload();
      await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
      const stored = String(await page.evaluate('JSON.stringify([localStorage, document.cookie])'));
      expect(stored).not.toContain(gateway.keys.api);
      expect(tab.requests.filter((url) => url.includes(gateway.keys.api))).toEqual([]);
      expect(await page.context().cookies()).toEqual([]);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key or admin token').waitFor();
      expect(await page.evaluate('JSON.stringify(sessionStorage)')).toBe('{}');
    },
    timeoutMs,
  );

  test(
    'explains why a key is rejected, and ends when the key is deleted',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const errorFor = async (key: string) => {
        await page.getByLabel('Key or admin token').fill(key);
        await page.getByRole('button', { name: 'Sign in' }).click();
        return page.getByRole('alert').innerText();
      };
      await page.goto(`${gateway.url}/dashboard`);
      expect(await errorFor('hello')).toBe(
        'Not a Tollgate key. Tollgate keys start with sk-tg-, sk-mgmt-, or sk-admin-.',
      );
      const { text } = await gateway.manage('POST', '/api/v1/keys', { name: 'short-lived' });
      const { key, data } = JSON.parse(text) as { key: string; data: { id: string } };
      await tab.signIn(gateway.url, key);
      await tab.settled();
      await gateway.manage('DELETE', `/api/v1/keys/${data.id}`);
      await untilRejected(key);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('You were signed out').waitFor();
    },
    timeoutMs,
  );

  test(
    'restores a filter from the URL after a reload',
    async () => {
      await gateway.chat({ model: 'demo/chat', messages: [{ role: 'user', content: 'Hi' }] });
      await gateway.chat({ model: 'demo/none', messages: [{ role: 'user', content: 'Hi' }] });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/logs');
      await page.getByLabel('Status').selectOption('error');
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor({ state: 'detached' });
      await page.reload();
      await page.getByRole('cell', { name: 'demo/none' }).first().waitFor();
      expect(await page.getByRole('cell', { name: 'demo/chat' }).count()).toBe(0);
      await page.getByRole('cell', { name: 'demo/none' }).first().click();
      await page.getByRole('dialog', { name: 'Receipt' }).waitFor();
      const id = new URL(page.url()).searchParams.get('request') ?? '';
      await page.goBack();
      await page.getByRole('dialog', { name: 'Receipt' }).waitFor({ state: 'detached' });
      expect(page.url()).toContain('status=error');
      await page.getByLabel('Request ID').fill(`chatcmpl-${id.replaceAll('-', '')}`);
      await page.getByRole('dialog', { name: 'Receipt' }).getByText(id).waitFor();
    },
    timeoutMs,
  );

  test(
    'can be used with the keyboard on a phone',
    async () => {
      await gateway.chat({ model: 'demo/chat', messages: [{ role: 'user', content: 'Hi' }] });
      await using tab = await Tab.open(browser, { theme: 'dark', size: phone });
      const { page } = tab;
      await page.goto(`${gateway.url}/dashboard/logs`);
      await page.getByLabel('Key or admin token').focus();
      await page.keyboard.type(gateway.keys.api);
      await page.keyboard.press('Enter');
      const first = page.getByRole('table', { name: 'Requests' }).getByRole('button').first();
      await first.focus();
      await page.keyboard.press('Enter');
      await page.getByRole('dialog', { name: 'Receipt' }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog', { name: 'Receipt' }).waitFor({ state: 'detached' });
      const menu = page.getByRole('button', { name: 'Menu' });
      await menu.focus();
      await page.keyboard.press('Enter');
      await page.getByRole('link', { name: 'Models' }).focus();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
      expect(await page.getByRole('link', { name: 'Models' }).isVisible()).toBe(false);
    },
    timeoutMs,
  );

  test(
    'follows the theme of the system until the user chooses one',
    async () => {
      await using tab = await open('dark');
      const { page } = tab;
      const theme = () => page.evaluate('document.documentElement.dataset.theme');
      await tab.signIn(gateway.url, gateway.keys.api);
      expect(await theme()).toBe('dark');
      await page.getByRole('button', { name: 'Switch to light theme' }).click();
      expect(await theme()).toBe('light');
      await page.reload();
      await page.getByRole('button', { name: 'Switch to dark theme' }).waitFor();
      expect(await theme()).toBe('light');
    },
    timeoutMs,
  );
});
