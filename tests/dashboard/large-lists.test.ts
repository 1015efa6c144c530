import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import type { ApiKey } from '../../src/auth/tenant-directory.ts';
import { openStore } from '../../src/store/open.ts';
import { book, grant, makeRecord } from '../contracts/bookings.ts';
import { makeKey, makeTenant, randomHash } from '../contracts/engines.ts';
import { desktop, openBrowser, phone, Tab } from '../support/browser.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;
const env = {
  TOLLGATE_BOOTSTRAP_API_KEY: `sk-tg-largelists-${'a'.repeat(40)}`,
  TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: `sk-mgmt-largelists-${'b'.repeat(40)}`,
  TOLLGATE_ADMIN_TOKEN: `sk-admin-${'c'.repeat(40)}`,
};
const customers = 130;
const keys = 120;
/** The index of the expired key. */
const expired = 5;
/** Limits by key index. The first one was lowered below what the key had already spent. */
const limits: Record<number, Pick<ApiKey, 'limitCredits' | 'limitReset'>> = {
  0: { limitCredits: 300, limitReset: null },
  1: { limitCredits: 1_000, limitReset: 'daily' },
  118: { limitCredits: 20_000, limitReset: 'weekly' },
};
/** The maximum length, without a space to wrap at. */
const unbrokenName = 'x'.repeat(200);
const longName =
  'A service with a name that is longer than any column of the log would like it to be';

let gateway: Gateway;
let browser: Browser;

const charge = (modelCharge: number) => ({
  modelCharge,
  byokPlatformFee: 0,
  managedToolFee: 0,
  agentRuntimeFee: 0,
});

beforeAll(async () => {
  const dataDir = join(newFolder(), 'data');
  await seed(dataDir);
  gateway = await startGateway({ dataDir, env });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** Adds a tenant with many keys and 3 requests, one of them failed, and many other tenants. */
async function seed(dataDir: string): Promise<void> {
  const store = await openStore(`sqlite:${join(dataDir, 'tollgate.db')}`);
  const now = Date.now();
  await store.directory.addTenant(makeTenant({ id: 'default', name: 'Default', createdAt: 1 }));
  await grant(store, 'default', 1_000_000);
  const ids: string[] = [];
  for (let index = 0; index < keys; index++) {
    const name = index === 0 ? longName : index === 6 ? unbrokenName : `service ${index}`;
    const change = { name, createdAt: index, label: `sk-tg-k${index}…00`, disabled: index === 117 };
    const days = index === expired ? { expiresAt: now - 1_000 } : {};
    const limit = limits[index] ?? { limitCredits: null, limitReset: null };
    const key = makeKey('default', { ...change, ...days, ...limit });
    await store.directory.addKey(key, randomHash());
    ids.push(key.id);
  }
  const overloaded = { provider: 'acme', model: 'acme/chat', outcome: 'overloaded', status: 529 };
  const of = (at: number) => ({ tenantId: 'default', keyId: ids[at] ?? '', createdAt: now - at });
  await book(store, [
    makeRecord({ ...of(0), charges: charge(500) }),
    makeRecord({ ...of(118), charges: charge(70) }),
    makeRecord({
      ...of(119),
      provider: null,
      model: null,
      status: 'error',
      error: 'upstream_error',
      charges: charge(0),
      attempts: [{ ...overloaded, message: 'Come back <b>later</b>.', ms: 9 }],
    }),
  ]);
  for (let index = 0; index < customers; index++) {
    const id = `customer-${String(index).padStart(3, '0')}`;
    const name = index === 6 ? unbrokenName : `Customer ${index}`;
    await store.directory.addTenant(makeTenant({ id, name, createdAt: 2 + index }));
    await grant(store, id, 100_000 + index);
  }
  const spent = makeRecord({ tenantId: 'customer-007', charges: charge(99_900), createdAt: now });
  await book(store, [spent]);
  await store.database.close();
}

const open = () => Tab.open(browser, { theme: 'light', size: desktop });

describe('a tenant with many keys', () => {
  test(
    'sees the key of each log row in a column, and long names do not widen the column',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/logs');
      const rows = page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
      await rows.nth(0).getByText(longName).waitFor();
      expect(await rows.nth(1).innerText()).toContain('service 118');
      const widths = await rows
        .locator('.key-name')
        .evaluateAll((names) => names.map((name) => name.getBoundingClientRect().width));
      expect(new Set(widths).size).toBe(1);
      await rows.nth(2).getByText('upstream error').waitFor();
      expect(await tab.horizontalOverflow()).toBe(0);
    },
    timeoutMs,
  );

  test(
    'sees why a request failed and the message of the provider in a receipt',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/logs?status=error');
      await page.getByRole('cell', { name: 'service 119' }).click();
      const receipt = page.getByRole('dialog', { name: 'Receipt' });
      await receipt.getByText('No provider returned a usable answer.').waitFor();
      await receipt.getByText('acme (529): Come back <b>later</b>.').waitFor();
      await receipt.getByText('upstream_error').waitFor();
      await receipt.getByRole('link', { name: 'service 119' }).click();
      await page.getByText('1 to 1 of 1').waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'sees how much of a limit is spent, when it resets, and whether it is used up',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys?search=118');
      await page.getByText('70 of 20,000 spent this week').waitFor();
      await page.getByText(/^resets on \d+ \w+ \d{4}$/).waitFor();
      await page.getByLabel('Search').fill('service 1');
      await page.getByText('0 of 1,000 spent today').waitFor();
      expect(await page.getByText('used up').count()).toBe(0);
      await page.getByLabel('Search').fill('a name that is longer');
      await page.getByText('500 of 300 spent', { exact: true }).waitFor();
      await page.getByText('used up').waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'finds keys beyond the first page while typing',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys');
      const rows = page.getByRole('table', { name: 'Keys' }).locator('tbody tr');
      await rows.nth(99).waitFor();
      await page.getByLabel('Search').pressSequentially('SERVICE 11');
      // Finds 11 and 110 to 119, except 117, which is disabled. Shorter searches find more.
      await rows.nth(10).waitFor({ state: 'detached' });
      expect(await rows.count()).toBe(10);
      await page.getByLabel('Show disabled keys').check();
      await page.getByText('service 117').waitFor();
      expect(await rows.count()).toBe(11);
      await page.reload();
      await rows.nth(10).waitFor();
      expect(await page.getByLabel('Search').inputValue()).toBe('SERVICE 11');
      await page.getByRole('button', { name: 'Disable service 118' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
      await page.getByRole('button', { name: 'Enable service 118' }).waitFor();
      await page.getByLabel('Search').fill('no such key');
      await page.getByText('No matching keys').waitFor();
      await page.getByLabel('Search').fill('');
      await rows.nth(99).waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'can edit the name and cache mode of an expired key without changing other fields',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const find = async () => {
        const { text } = await gateway.manage('GET', '/api/v1/keys');
        const { data } = JSON.parse(text) as { data: Record<string, unknown>[] };
        return data.find(({ label }) => label === `sk-tg-k${expired}…00`);
      };
      const before = await find();
      await tab.signIn(gateway.url, gateway.keys.management, '/keys');
      await page.getByRole('button', { name: `Edit service ${expired}`, exact: true }).click();
      const form = page.getByRole('dialog', { name: 'Edit key' });
      await form.getByLabel('Name').fill('Retired');
      await form.getByText('More settings').click();
      const cache = form.getByLabel('Response cache');
      expect(await cache.inputValue()).toBe('auto');
      await cache.selectOption('always');
      await form.getByRole('button', { name: 'Save' }).click();
      await form.waitFor({ state: 'detached' });
      await page.getByRole('row', { name: /Retired/ }).waitFor();
      const after = { ...before, name: 'Retired', cache: 'always' };
      expect(await find()).toEqual({ ...after, updated_at: expect.any(String) });
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'opens the overview of a month from its statement',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/credits');
      const today = new Date().toISOString().slice(0, 10);
      const months = page.getByRole('table', { name: 'Statements by month' });
      await months.getByRole('link').first().click();
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      const { searchParams } = new URL(page.url());
      expect([searchParams.get('from'), searchParams.get('to')]).toEqual([
        `${today.slice(0, 8)}01`,
        today,
      ]);
      const usage = page.getByRole('table', { name: 'Usage by model' });
      const text = await usage.getByRole('row').nth(1).innerText();
      expect(text).toContain('570');
      expect(text).toContain('new in this period');
    },
    timeoutMs,
  );

  test(
    'sees only IDs of other keys if signed in with a routing key',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const body = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hi' }] };
      expect((await gateway.chat(body)).status).toBe(200);
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      const rows = page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
      await rows.nth(3).waitFor();
      expect(await rows.nth(0).innerText()).toContain('Bootstrap');
      expect(await rows.nth(1).innerText()).toMatch(/key_[0-9a-z]+/);
    },
    timeoutMs,
  );
});

describe('an operator with many tenants', () => {
  const tenantNames = (tab: Tab) =>
    tab.page.getByRole('table', { name: 'Tenants' }).locator('tbody tr td.head b').allInnerTexts();

  test(
    'sees who spent the most and who is about to run out of credits',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.admin);
      const rows = page.getByRole('table', { name: 'Tenants' }).locator('tbody tr');
      await rows.nth(99).waitFor();
      const first = await rows.nth(0).innerText();
      expect(first).toContain('Customer 7');
      expect(first).toContain('99,900');
      // 107 of 100,007 are left, which is less than a day's spend on any day of the month.
      expect(first).toContain('hours left');
      const second = await rows.nth(1).innerText();
      expect(second).toContain('Default');
      expect(second).toMatch(/(25|33\.33)% failed/);
      await page.getByLabel('Sort by').selectOption('Fewest credits');
      await page.waitForURL(/sort=credits/);
      await rows.nth(0).getByText('Customer 7').waitFor();
      await rows.nth(1).getByText('Customer 0').waitFor();
      await page.getByRole('button', { name: 'Next' }).click();
      await rows.nth(31).waitFor({ state: 'detached' });
      const rest = await tenantNames(tab);
      expect([rest.length, rest.at(-1)]).toEqual([31, 'Default']);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'finds a tenant by part of its name with the keyboard on a phone',
    async () => {
      await using tab = await Tab.open(browser, { theme: 'dark', size: phone });
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.admin, '/operator?sort=name&offset=100');
      const rows = page.getByRole('table', { name: 'Tenants' }).locator('tbody tr');
      await rows.nth(10).waitFor();
      await page.getByLabel('Search').focus();
      await page.keyboard.type('MER-12');
      // Shorter searches find more.
      await rows.nth(10).waitFor({ state: 'detached' });
      expect(await tenantNames(tab)).toEqual(
        [120, 121, 122, 123, 124, 125, 126, 127, 128, 129].map((at) => `Customer ${at}`),
      );
      expect(new URL(page.url()).search).toBe('?sort=name&search=MER-12');
      expect(await tab.accessibilityViolations()).toEqual([]);
      expect(await tab.horizontalOverflow()).toBe(0);
      await page.getByLabel('Search').fill('no such tenant');
      await page.getByText('No matching tenants').waitFor();
    },
    timeoutMs,
  );
});

describe('tables with long names', () => {
  const widths = [780, 1_024, 1_200];
  const overflow = `Math.max(...[...document.querySelectorAll('.table-frame')].map(
    ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`;

  test.each([
    ['/logs', 'management'],
    ['/keys', 'management'],
    ['/credits', 'management'],
    ['/operator', 'admin'],
  ] as const)(
    'do not cut off any column at any window width (%s)',
    async (path, who) => {
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys[who], path);
      await tab.page.locator('tbody tr').first().waitFor();
      await tab.settled();
      for (const width of widths) {
        await tab.page.setViewportSize({ width, height: 800 });
        expect([width, await tab.page.evaluate(overflow)]).toEqual([width, 0]);
      }
    },
    timeoutMs,
  );
});
