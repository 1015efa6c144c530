import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { desk, openBrowser, phone, Tab } from '../support/browser.ts';
import { chatAnswer, startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

/** The dashboard as people use it: a real gateway, a real browser, real clicks. */

const patienceMs = 120_000;
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
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream.stop();
});

/** A revocation takes up to a second; a key that is never refused runs into the test's patience. */
async function refused(key: string): Promise<void> {
  while ((await gateway.call('GET', '/v1/key', { key })).status !== 401) await Bun.sleep(50);
}

const open = (theme: 'light' | 'dark' = 'light') => Tab.open(browser, { theme, size: desk });

async function createKey(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByRole('button', { name: 'Create a key' }).click();
  const form = page.getByRole('dialog', { name: 'Create a key' });
  await form.getByLabel('Name').fill('Story');
  await form.getByLabel('Limit in credits').fill('20000');
  await form.getByRole('button', { name: 'Create' }).click();

  const secretBox = page.getByRole('dialog', { name: 'The secret of Story' });
  const secret = await secretBox.getByLabel('secret').inputValue();
  const pasted = page.evaluate(`new Promise((resolve) => {
    addEventListener('copy', () => resolve(getSelection().toString()), { once: true });
    // As on a page without TLS.
    navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'));
  })`);
  // Said for a moment only, and looked for from before it is said.
  const said = secretBox.getByText('Copied').waitFor();
  await secretBox.getByRole('button', { name: 'Copy secret' }).click();
  await said;
  expect(await pasted).toBe(secret);
  expect(secret).toMatch(/^sk-tg-[0-9a-z]+-[0-9a-z]+$/);
  expect(await secretBox.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true);
  await secretBox.getByRole('button', { name: 'Try it in the playground' }).click();
}

async function readReceipt(page: Page): Promise<void> {
  const receipt = page.getByRole('dialog', { name: 'Receipt' });
  const bill = receipt.getByRole('table', { name: 'Charge, line by line' });
  await bill.waitFor();
  const lines = await bill.getByRole('row').allInnerTexts();
  expect(lines.map((line) => line.replaceAll(/\s+/g, ' ').trim())).toEqual([
    'Input 1,000 × $2.00 per million 2,000',
    'Cached input 200 × $0.50 per million 100',
    'Output 340 × $10.00 per million 3,400',
    'Model charge rounded up once 5,500',
    'Charged, in credits 5,500',
  ]);
  const attempts = await receipt.locator('.attempts > li').allInnerTexts();
  expect(attempts).toHaveLength(2);
  expect(attempts[0]).toContain('first');
  expect(attempts[0]).toContain('failed (500)');
  expect(attempts[1]).toContain('second');
  expect(attempts[1]).toContain('answered');
  await receipt.getByRole('button', { name: 'Show the generation record' }).click();
  const record = receipt.getByLabel('generation record');
  expect(await record.inputValue()).toContain('"total_cost": 5500');
  await receipt.getByRole('button', { name: 'Close' }).click();
}

describe('from a new key to its statement', () => {
  test(
    'one signs in, creates a key, calls with it, and follows the charge',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management);

      await createKey(page);
      await page.getByLabel('Model', { exact: true }).selectOption('acme/chat');
      await page.getByLabel('Your message').fill('Hello!');
      await page.getByRole('button', { name: 'Send' }).click();
      const said = page.locator('.turn.assistant');
      await said.getByText('Good day!').waitFor();
      // 1,000 fresh and 200 cached input tokens and 340 of output, at 2, 0.50 and 10 dollars a
      // million: 2,000 + 100 + 3,400 millionths of a dollar, which are credits.
      await said.getByText('5,500 credits').waitFor();
      await said.getByRole('link', { name: 'receipt' }).click();

      await readReceipt(page);
      const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
      expect(await rows.nth(1).innerText()).toContain('5,500');

      await page.getByRole('link', { name: 'Overview' }).click();
      await page
        .getByRole('button', { name: /^Spend/ })
        .getByText('5,500')
        .waitFor();
      const groups = page.getByRole('table', { name: 'Sums by model' });
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
    patienceMs,
  );

  test(
    'a key is rotated with overlap, disabled and deleted',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const { text } = await gateway.manage('POST', '/api/v1/keys', { name: 'Turned' });
      const { key, data } = JSON.parse(text) as { key: string; data: { id: string } };
      const works = async (secret: string) =>
        (await gateway.call('GET', '/v1/key', { key: secret })).status;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys');
      await page.getByRole('button', { name: 'Rotate Turned' }).click();
      await page.getByLabel('The old secret').selectOption('86400');
      await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
      const box = page.getByRole('dialog', { name: 'The secret of Turned' });
      const fresh = await box.getByLabel('secret').inputValue();
      await box.getByLabel('I have stored it').check();
      await box.getByRole('button', { name: 'Done' }).click();
      expect(fresh).not.toBe(key);
      expect([await works(key), await works(fresh)]).toEqual([200, 200]);

      await page.getByRole('button', { name: 'Disable Turned' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
      await page.getByRole('row', { name: /Turned/ }).waitFor({ state: 'detached' });
      await refused(fresh);

      await page.getByLabel('Show disabled keys').check();
      await page.getByRole('button', { name: 'Delete Turned' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('row', { name: /Turned/ }).waitFor({ state: 'detached' });
      expect((await gateway.manage('GET', `/api/v1/keys/${data.id}`)).status).toBe(404);
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );
});

describe('who sees what', () => {
  const pagesShown = async (tab: Tab) =>
    (await tab.page.locator('#navigation a').allInnerTexts()).map((text) => text.trim());

  test(
    'a routing key sees no key management',
    async () => {
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys.api, '/keys');
      await tab.page.getByText('does not open this page; it takes a management key').waitFor();
      const shown = await pagesShown(tab);
      expect(shown).toContain('Playground');
      expect(shown).not.toContain('Keys');
      expect(shown).not.toContain('Own accounts');
      expect(tab.requests.filter((url) => url.includes('/api/v1/'))).toEqual([]);
    },
    patienceMs,
  );

  test(
    'a key without the scope sees no money, and the first page is one that it may see',
    async () => {
      const { text } = await gateway.manage('POST', '/api/v1/keys', {
        name: 'c',
        scopes: ['chat'],
      });
      await using tab = await open();
      await tab.signIn(gateway.url, (JSON.parse(text) as { key: string }).key);
      await tab.page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
      expect(await pagesShown(tab)).toEqual(['Models', 'Playground']);
      await tab.settled();
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'the admin token opens the operator’s page and no other',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.admin);
      await page.getByRole('heading', { level: 1, name: 'Operator' }).waitFor();
      expect(await pagesShown(tab)).toEqual(['Operator']);
      await page.getByRole('button', { name: 'Create a tenant' }).click();
      await page.getByRole('dialog').getByLabel('Name').fill('Acme Ltd');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      await page.getByRole('button', { name: 'Credits: Acme Ltd' }).click();
      await page.getByLabel('Credits to add').fill('750');
      await page.getByRole('button', { name: 'Book' }).click();
      const row = page.getByRole('row', { name: /Acme Ltd/ });
      await row.getByText('750', { exact: true }).waitFor();
      const providers = page.getByRole('table', { name: 'Providers and their endpoints' });
      expect(await providers.getByRole('row', { name: /up-good/ }).innerText()).toContain(
        'healthy',
      );
      await page.getByText('Waiting for the books').waitFor();
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'a manager of another tenant sees nothing of this one',
    async () => {
      const made = await gateway.admin('POST', '/admin/v1/tenants', { id: 'other', name: 'Other' });
      expect(made.status).toBe(201);
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
    patienceMs,
  );
});

describe('what others wrote stays text', () => {
  test(
    'a script in a model’s name, in a log field and in an answer runs nowhere',
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
    patienceMs,
  );
});

describe('the tab', () => {
  test(
    'keeps the key for itself: not in the address, in no cookie, gone after signing out',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/models');
      await tab.settled();
      await page.reload();
      await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
      const kept = String(await page.evaluate('JSON.stringify([localStorage, document.cookie])'));
      expect(kept).not.toContain(gateway.keys.api);
      expect(tab.requests.filter((url) => url.includes(gateway.keys.api))).toEqual([]);
      expect(await page.context().cookies()).toEqual([]);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key or admin token').waitFor();
      expect(await page.evaluate('JSON.stringify(sessionStorage)')).toBe('{}');
    },
    patienceMs,
  );

  test(
    'says in a sentence why a key is not good, and leaves when one stops being so',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const why = async (key: string) => {
        await page.getByLabel('Key or admin token').fill(key);
        await page.getByRole('button', { name: 'Sign in' }).click();
        return page.getByRole('alert').innerText();
      };
      await page.goto(`${gateway.url}/dashboard`);
      expect(await why('hello')).toBe('A key starts with sk-tg-, sk-mgmt- or sk-admin-.');
      const { text } = await gateway.manage('POST', '/api/v1/keys', { name: 'short-lived' });
      const { key, data } = JSON.parse(text) as { key: string; data: { id: string } };
      await tab.signIn(gateway.url, key);
      await tab.settled();
      await gateway.manage('DELETE', `/api/v1/keys/${data.id}`);
      await refused(key);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('You were signed out').waitFor();
    },
    patienceMs,
  );

  test(
    'has everything in its address: a filter survives a reload, and back closes a receipt',
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
      await page.getByLabel('Request id').fill(`chatcmpl-${id.replaceAll('-', '')}`);
      await page.getByRole('dialog', { name: 'Receipt' }).getByText(id).waitFor();
    },
    patienceMs,
  );

  test(
    'can be used by keyboard alone, on a phone too',
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
    patienceMs,
  );

  test(
    'follows the system’s colours until somebody chooses',
    async () => {
      await using tab = await open('dark');
      const { page } = tab;
      const theme = () => page.evaluate('document.documentElement.dataset.theme');
      await tab.signIn(gateway.url, gateway.keys.api);
      expect(await theme()).toBe('dark');
      await page.getByRole('button', { name: 'Use light colours' }).click();
      expect(await theme()).toBe('light');
      await page.reload();
      await page.getByRole('button', { name: 'Use dark colours' }).waitFor();
      expect(await theme()).toBe('light');
    },
    patienceMs,
  );
});
