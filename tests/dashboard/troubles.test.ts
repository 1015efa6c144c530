import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desk, openBrowser, Tab } from '../support/browser.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

/** The dashboard when something is in the way: a gateway that is away, a slip, a long list. */

const patienceMs = 120_000;

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await startGateway({ config: { demo: true } });
  browser = await openBrowser();
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

const open = (size: { width: number; height: number } = desk) =>
  Tab.open(browser, { theme: 'light', size });

interface Made {
  readonly key: string;
  readonly data: { readonly id: string; readonly label: string };
}

async function makeKey(body: object): Promise<Made> {
  return JSON.parse((await gateway.manage('POST', '/api/v1/keys', body)).text) as Made;
}

const say = (model: string, key?: string) => {
  const body = { model, messages: [{ role: 'user', content: 'Hi' }] };
  return gateway.call('POST', '/v1/chat/completions', { body, key: key ?? gateway.keys.api });
};

const away = { status: 503, body: JSON.stringify({ error: { message: 'Back in a moment.' } }) };

describe('a gateway that does not answer', () => {
  test(
    'keeps whoever reloads waiting, with the key of the tab and the address',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs?status=error');
      await tab.settled();
      await page.route('**/v1/key', (route) => route.fulfill(away));
      await page.reload();
      await page.getByText('Back in a moment.').waitFor();
      await page.unroute('**/v1/key');
      await page.getByRole('button', { name: 'Try again with the key of this tab' }).click();
      await page.getByRole('heading', { level: 1, name: 'Logs' }).waitFor();
      expect(new URL(page.url()).searchParams.get('status')).toBe('error');
    },
    patienceMs,
  );

  test(
    'does not leave the rows of the last filter below the next one',
    async () => {
      await say('demo/chat');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      const answered = Promise.withResolvers<void>();
      await page.route('**/v1/customer/logs?*', async (route) => {
        await answered.promise;
        await route.fulfill(away);
      });
      await page.getByLabel('Status').selectOption('error');
      // What is in sight meanwhile is marked as what it is.
      await page.locator('main[aria-busy="true"]').waitFor();
      expect(await page.getByRole('cell', { name: 'demo/chat' }).count()).toBeGreaterThan(0);
      answered.resolve();
      await page.getByText('Back in a moment.').waitFor();
      expect(await page.getByRole('cell', { name: 'demo/chat' }).count()).toBe(0);
    },
    patienceMs,
  );

  test.each([
    ['models', 'api', '**/v1/models', 'Demo Chat'],
    ['keys', 'management', '**/api/v1/keys?*', 'this one'],
    ['operator', 'admin', '**/admin/v1/books', 'Waiting for the books'],
    ['credits', 'api', '**/v1/customer/credits', 'Spent this month'],
    ['skills', 'api', '**/v1/customer/skills', 'json-only'],
    ['byok', 'management', '**/api/v1/byok', 'No accounts of your own'],
    ['playground', 'api', '**/v1/models', 'Nothing said yet'],
  ] as const)(
    'is asked again by a button on %s, which stays until there is an answer',
    async (name, who, path, shown) => {
      await using tab = await open();
      const { page } = tab;
      await page.route(path, (route) => route.fulfill(away));
      await tab.signIn(gateway.url, gateway.keys[who], `/${name}`);
      const note = page.getByRole('alert').filter({ hasText: 'Back in a moment.' });
      await note.waitFor();
      expect(await tab.barriers()).toEqual([]);
      const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await page.route(path, async (route) => {
        asked.resolve();
        await answered.promise;
        await route.continue();
      });
      await note.getByRole('button', { name: 'Try again' }).click();
      await asked.promise;
      expect(await note.count()).toBe(1);
      answered.resolve();
      await page.getByText(shown).first().waitFor();
      expect(await note.count()).toBe(0);
    },
    patienceMs,
  );

  test(
    'to its end, or through something that answers in its place, is told in our words',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await page.route('**/v1/customer/logs?*', (route) => route.fulfill({ body: '{"logs": [' }));
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByText('The gateway’s answer broke off or cannot be read.').waitFor();
    },
    patienceMs,
  );

  test(
    'a key that was revoked is forgotten, not tried again at every reload',
    async () => {
      const { key, data } = await makeKey({ name: 'short-lived' });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, key);
      await tab.settled();
      await gateway.manage('DELETE', `/api/v1/keys/${data.id}`);
      while ((await gateway.call('GET', '/v1/key', { key })).status !== 401) await Bun.sleep(50);
      await page.reload();
      await page.getByText('The API key is not valid').waitFor();
      expect(await page.evaluate('JSON.stringify(sessionStorage)')).toBe('{}');
      expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
    },
    patienceMs,
  );
});

test(
  'whoever comes back to a tab after an hour sees what is there now, and after a moment the same',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/credits');
    await page.getByText('Spent this month').waitFor();
    const comeBack = "document.dispatchEvent(new Event('visibilitychange'))";
    await page.evaluate(comeBack);
    await page.evaluate('{ const now = Date.now(); Date.now = () => now + 3_600_000; }');
    const answer = page.waitForResponse('**/v1/customer/credits');
    await page.evaluate(comeBack);
    await answer;
    const asked = tab.requests.filter((url) => url.endsWith('/v1/customer/credits'));
    expect(asked.length).toBe(2);
  },
  patienceMs,
);

test(
  'an operator reads above all else that a provider is failing',
  async () => {
    await using tab = await open();
    const { page } = tab;
    const endpoint = { upstream_model: 'up', priority: 0, failures_in_a_row: 5 };
    const unmeasured = { first_byte_ms: null, tokens_per_second: null };
    const endpoints = (['closed', 'half_open', 'open', 'closed'] as const).map((circuit, at) => {
      return { ...endpoint, ...unmeasured, model: `acme/chat-${at}`, circuit };
    });
    const failures = { timeout: 9, unreachable: 1_200 };
    const recent = { window_seconds: 890, calls: 1_612, failed_calls: 1_209, failures };
    const refused = { ...recent, failed_calls: 2, failures: { credential: 2 } };
    const acme = { name: 'acme', dialect: 'openai', circuit: 'open', recent, endpoints };
    const closed = { ...acme, name: 'closed', recent: refused, endpoints: endpoints.slice(0, 1) };
    const data = [acme, closed];
    await page.route('**/admin/v1/providers', (route) => route.fulfill({ json: { data } }));
    await tab.signIn(gateway.url, gateway.keys.admin);
    const alarm = page.getByRole('status').filter({ hasText: 'endpoints' });
    await alarm.waitFor();
    expect(await alarm.innerText()).toBe('Of 5 endpoints, 1 failing and 1 recovering. Which ones');
    await alarm.getByRole('link').click();
    const rows = page
      .getByRole('table', { name: 'Providers and their endpoints' })
      .getByRole('row');
    expect(await rows.nth(1).innerText()).toContain('acme/chat-2');
    const calls = page.getByRole('table', { name: 'Recent calls by provider' }).getByRole('row');
    expect((await calls.nth(1).innerText()).split(/\t|\n+/)).toEqual([
      'acme',
      '1,612',
      '1,209',
      '75.0%',
      'unreachable 1,200, too slow 9',
    ]);
    expect(await page.getByText('Calls in the last 14 min').count()).toBe(1);
    expect(await page.getByText(/refused a key/).allInnerTexts()).toEqual([
      'closed refused a key: tollgate doctor tries yours, providers.closed.api_key, and says ' +
        'what to set.',
    ]);
    expect(await tab.barriers()).toEqual([]);
    await page.unroute('**/admin/v1/providers');
    await alarm.waitFor({ state: 'detached' });
    expect(tab.problems).toEqual([]);
  },
  patienceMs,
);

test.each([
  ['/jobs?create=1', '**/v1/models', 'Model'],
  ['/skills?skill=json-only', '**/v1/customer/skills/json-only', 'What it does'],
] as const)(
  'whoever opens a form types into its first field, also where that comes late: %s',
  async (path, address, field) => {
    await using tab = await open();
    const { page } = tab;
    const answered = Promise.withResolvers<void>();
    await page.route(address, async (route) => {
      await answered.promise;
      await route.continue();
    });
    await tab.signIn(gateway.url, gateway.keys.api, path);
    const form = page.getByRole('dialog');
    await form.getByText('Fetching').waitFor();
    answered.resolve();
    await form.getByLabel(field).and(page.locator(':focus')).waitFor();
  },
  patienceMs,
);

describe('a slip', () => {
  test.each([
    ['/?split=toString&metric=constructor', 'management', 'By model'],
    ['/operator?sort=toString', 'admin', 'Default'],
  ] as const)(
    'in an address means what it would mean without: %s',
    async (path, who, shown) => {
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys[who], path);
      await tab.page.getByText(shown).first().waitFor();
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'of the finger on Escape does not lose the secret of a new key',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys?create=1');
      const form = page.getByRole('dialog', { name: 'Create a key' });
      await form.waitFor();
      // One types at once: the dialog begins in its first field.
      await page.keyboard.type('Careful');
      // Between the two clicks no answer comes, however slow the finger is.
      const clicked = Promise.withResolvers<void>();
      await page.route('**/api/v1/keys', async (route) => {
        await clicked.promise;
        await route.continue();
      });
      await form.getByRole('button', { name: 'Create' }).dblclick();
      clicked.resolve();
      const box = page.getByRole('dialog', { name: 'The secret of Careful' });
      await box.waitFor();
      for (const _ of [1, 2, 3]) await page.keyboard.press('Escape');
      expect(await box.getByLabel('secret').inputValue()).toStartWith('sk-tg-');
      expect(await box.getByRole('button', { name: 'Close' }).count()).toBe(0);
      await box.getByLabel('I have stored it').check();
      await page.keyboard.press('Escape');
      await box.waitFor({ state: 'detached' });
      await page.getByRole('row', { name: /Careful/ }).waitFor();
      expect(await page.getByRole('row', { name: /Careful/ }).count()).toBe(1);
    },
    patienceMs,
  );

  test(
    'in a part of a form that is folded away is shown',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys?create=1');
      const form = page.getByRole('dialog', { name: 'Create a key' });
      await form.getByLabel('Name').fill('Slow');
      await form.getByText('More settings').click();
      await form.getByLabel('Requests per minute').fill('0');
      await form.getByText('More settings').click();
      await form.getByRole('button', { name: 'Create' }).click();
      await form.getByLabel('Requests per minute').and(page.locator(':focus')).waitFor();
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'into a dialog leads back to where one was',
    async () => {
      await makeKey({ name: 'Kept' });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys');
      await page.getByRole('button', { name: 'Delete Kept' }).focus();
      await page.keyboard.press('Enter');
      const question = page.getByRole('dialog', { name: 'Delete Kept?' });
      await question.getByRole('button', { name: 'Cancel' }).and(page.locator(':focus')).waitFor();
      // Asked the moment it is gone: a picture later is too late for whoever types on.
      await page.evaluate(`new MutationObserver(() => {
        if (document.querySelector('dialog') === null) window.at ??= document.activeElement;
      }).observe(document.body, { childList: true, subtree: true })`);
      await page.keyboard.press('Escape');
      await question.waitFor({ state: 'detached' });
      expect(await page.evaluate('window.at.getAttribute("aria-label")')).toBe('Delete Kept');
    },
    patienceMs,
  );

  test(
    'in the address shows the usual days, and the end of the log instead of an empty page',
    async () => {
      await say('demo/chat');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '?from=2026-13-45&to=2026-13-46');
      await page.getByText('30 days, compared with the 30 before').waitFor();
      await tab.settled();
      await page.goto(`${gateway.url}/dashboard/logs?offset=100000`);
      await page.getByText('Nothing beyond').waitFor();
      await page.getByRole('button', { name: 'Newer' }).click();
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      await page.goto(`${gateway.url}/dashboard/keys?offset=-5`);
      await page.getByRole('row', { name: /this one/ }).waitFor();
      await page.goto(`${gateway.url}/dashboard/keys?offset=5000`);
      await page.getByText('No more keys').waitFor();
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );
});

describe('a quick hand', () => {
  test(
    'that chooses before the page is painted is heard',
    async () => {
      await say('demo/chat');
      await say('demo/none');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/models');
      await tab.settled();
      // In one breath: the page is drawn, and not painted before somebody has chosen.
      await page.evaluate(`(async () => {
        document.querySelector('#navigation a[href$="/logs"]').click();
        await null;
        const isStatus = ({ labels }) => labels[0].textContent === 'Status';
        const status = [...document.querySelectorAll('select')].find(isStatus);
        status.value = 'error';
        status.dispatchEvent(new Event('change', { bubbles: true }));
      })()`);
      await page.getByRole('cell', { name: 'demo/none' }).first().waitFor();
      expect(await page.getByLabel('Status').inputValue()).toBe('error');
      expect(await page.getByRole('cell', { name: 'demo/chat' }).count()).toBe(0);
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );
});

describe('much of something', () => {
  test(
    'a year is typed digit by digit, and neither the gateway nor «back» hears of the year 20',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await tab.settled();
      const steps = await page.evaluate('history.length');
      await page.getByLabel('From').focus();
      await page.keyboard.type('10012025');
      await page.waitForURL(/from=2025-10-01/);
      await tab.settled();
      expect(await page.evaluate('history.length')).toBe(steps);
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'a model is looked up when its name is whole, not at every letter',
    async () => {
      await say('demo/chat');
      await say('demo/none');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByRole('cell', { name: 'demo/none' }).first().waitFor();
      const before = tab.requests.length;
      await page.getByLabel('Model', { exact: true }).pressSequentially('demo/chat');
      await page.keyboard.press('Enter');
      await page.getByRole('cell', { name: 'demo/none' }).first().waitFor({ state: 'detached' });
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      const asked = tab.requests.slice(before).filter((url) => url.includes('/logs?'));
      expect(asked.map((url) => new URL(url).searchParams.get('model'))).toEqual(['demo/chat']);
    },
    patienceMs,
  );

  test(
    'a system prompt too long for an address survives a reload',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=demo/chat');
      const prompt = page.getByLabel('System prompt');
      await prompt.fill('Be brief. '.repeat(3_000));
      await page.reload();
      expect(await prompt.inputValue()).toBe('Be brief. '.repeat(3_000));
      expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('demo/chat');
      await prompt.fill('Be kind.');
      await page.waitForURL(/model=demo%2Fchat&system=Be\+kind\./);
    },
    patienceMs,
  );

  test(
    'a conversation is still there after a look at its receipt, and gone after signing out',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const path = '/playground?model=demo/chat';
      await tab.signIn(gateway.url, gateway.keys.api, path);
      await page.getByLabel('Your message').fill('Remember this');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.getByRole('link', { name: 'receipt' }).click();
      await page.getByRole('dialog', { name: 'Receipt' }).waitFor();
      await page.goBack();
      await page.locator('.turn.user').getByText('Remember this').waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key or admin token').fill(gateway.keys.api);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('Nothing said yet').waitFor();
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'every one of many keys has its name, and two of one name are told apart',
    async () => {
      for (let at = 0; at < 105; at++) await makeKey({ name: `app ${at}` });
      const [one, other] = [await makeKey({ name: 'twin' }), await makeKey({ name: 'twin' })];
      for (const { key } of [one, other]) expect((await say('demo/chat', key)).status).toBe(200);
      await using tab = await open({ width: 1280, height: 720 });
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '?split=api_key_id');
      const groups = page.getByRole('table', { name: 'Sums by key' });
      for (const { data } of [one, other]) {
        await groups.getByRole('link', { name: `twin (${data.label})` }).waitFor();
      }
      await page.getByLabel('Key', { exact: true }).selectOption(other.data.id);
      await page
        .getByRole('button', { name: /^Requests/ })
        .getByText('1', { exact: true })
        .waitFor();
      // Nothing that can be done with a key is out of sight on a small screen.
      await page.getByRole('link', { name: 'Keys', exact: true }).click();
      await page.getByRole('button', { name: 'Delete app 0', exact: true }).waitFor();
      const hidden = 'document.querySelector(".table-frame").scrollWidth';
      const shown = 'document.querySelector(".table-frame").clientWidth';
      expect(await page.evaluate(`${hidden} - ${shown}`)).toBe(0);
    },
    patienceMs,
  );
});

describe('a customer with one key', () => {
  test(
    'sees what it may still spend',
    async () => {
      const limited = await makeKey({ name: 'Limited', limit: 20_000, limit_reset: 'monthly' });
      const answer = await say('demo/chat', limited.key);
      const { cost } = answer.body.usage as { cost: number };
      expect(cost).toBeGreaterThan(0);
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, limited.key, '/credits');
      const left = (20_000 - cost).toLocaleString('en-US');
      await page.getByText(`${left} of 20,000 credits monthly are left`).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await tab.signIn(gateway.url, gateway.keys.api, '/credits');
      await page.getByText('It has no limit of its own').waitFor();
      expect(await tab.barriers()).toEqual([]);
      expect(tab.problems).toEqual([]);
    },
    patienceMs,
  );

  test(
    'without any credits is told so in words',
    async () => {
      const { text } = await gateway.admin('POST', '/admin/v1/tenants', { name: 'Fresh' });
      const { id } = (JSON.parse(text) as { data: { id: string } }).data;
      const made = await gateway.admin('POST', `/admin/v1/tenants/${id}/keys`, { name: 'first' });
      await using tab = await open();
      const { key } = JSON.parse(made.text) as Made;
      await tab.signIn(gateway.url, key, '/credits');
      await tab.page.getByText('No statements yet').waitFor();
      expect(await tab.page.getByRole('table').count()).toBe(0);
    },
    patienceMs,
  );
});
