import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, Tab } from '../support/browser.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { waitUntil } from '../support/wait-until.ts';

const timeoutMs = 120_000;

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await startGateway({ config: { demo: true } });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

const open = (size: { width: number; height: number } = desktop) =>
  Tab.open(browser, { theme: 'light', size });

interface CreatedKey {
  readonly key: string;
  readonly data: { readonly id: string; readonly label: string };
}

async function makeKey(body: object): Promise<CreatedKey> {
  return JSON.parse((await gateway.manage('POST', '/api/v1/keys', body)).text) as CreatedKey;
}

const chat = (model: string, key?: string) => {
  const body = { model, messages: [{ role: 'user', content: 'Hi' }] };
  return gateway.call('POST', '/v1/chat/completions', { body, key: key ?? gateway.keys.api });
};

const unavailable = {
  status: 503,
  body: JSON.stringify({ error: { message: 'Back in a moment.' } }),
};

describe('an unavailable gateway', () => {
  test(
    'does not remove the key and URL of a tab, so that the user can retry',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs?status=error');
      await tab.settled();
      await page.route('**/v1/key', (route) => route.fulfill(unavailable));
      await page.reload();
      await page.getByText('Back in a moment.').waitFor();
      await page.unroute('**/v1/key');
      await page.getByRole('button', { name: "Try again with this tab's key" }).click();
      await page.getByRole('heading', { level: 1, name: 'Logs' }).waitFor();
      expect(new URL(page.url()).searchParams.get('status')).toBe('error');
    },
    timeoutMs,
  );

  test(
    'removes the rows of the previous filter when the next request fails',
    async () => {
      await chat('demo/chat');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      const answered = Promise.withResolvers<void>();
      await page.route('**/v1/customer/logs?*', async (route) => {
        await answered.promise;
        await route.fulfill(unavailable);
      });
      await page.getByLabel('Status').selectOption('error');
      // Meanwhile, the old rows are marked as stale.
      await page.locator('main[aria-busy="true"]').waitFor();
      expect(await page.getByRole('cell', { name: 'demo/chat' }).count()).toBeGreaterThan(0);
      answered.resolve();
      await page.getByText('Back in a moment.').waitFor();
      expect(await page.getByRole('cell', { name: 'demo/chat' }).count()).toBe(0);
    },
    timeoutMs,
  );

  test.each([
    ['models', 'api', '**/v1/models', 'Demo Chat'],
    ['keys', 'management', '**/api/v1/keys?*', 'your key'],
    ['operator', 'admin', '**/admin/v1/accounting', 'Unbooked requests'],
    ['credits', 'api', '**/v1/customer/credits', 'Spent this month'],
    ['skills', 'api', '**/v1/customer/skills', 'json-only'],
    ['byok', 'management', '**/api/v1/byok', 'No provider keys yet'],
    ['playground', 'api', '**/v1/models', 'No messages yet'],
  ] as const)(
    'shows a retry button until the gateway answers (%s)',
    async (name, who, path, text) => {
      await using tab = await open();
      const { page } = tab;
      await page.route(path, (route) => route.fulfill(unavailable));
      await tab.signIn(gateway.url, gateway.keys[who], `/${name}`);
      const note = page.getByRole('alert').filter({ hasText: 'Back in a moment.' });
      await note.waitFor();
      expect(await tab.accessibilityViolations()).toEqual([]);
      const [requested, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await page.route(path, async (route) => {
        requested.resolve();
        await answered.promise;
        await route.continue();
      });
      await note.getByRole('button', { name: 'Try again' }).click();
      await requested.promise;
      expect(await note.count()).toBe(1);
      answered.resolve();
      await page.getByText(text).first().waitFor();
      expect(await note.count()).toBe(0);
    },
    timeoutMs,
  );

  test(
    'shows an error message for an incomplete response',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await page.route('**/v1/customer/logs?*', (route) => route.fulfill({ body: '{"logs": [' }));
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByText("The gateway's response was incomplete or not valid JSON.").waitFor();
    },
    timeoutMs,
  );
});

describe('the session', () => {
  test(
    'deletes a revoked key instead of retrying with it',
    async () => {
      const { key, data } = await makeKey({ name: 'short-lived' });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, key);
      await tab.settled();
      await gateway.manage('DELETE', `/api/v1/keys/${data.id}`);
      await waitUntil(async () => (await gateway.call('GET', '/v1/key', { key })).status === 401, {
        everyMs: 50,
      });
      await page.reload();
      await page.getByText("The API key isn't valid").waitFor();
      expect(await page.evaluate('JSON.stringify(sessionStorage)')).toBe('{}');
      expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
    },
    timeoutMs,
  );
});

test(
  'a tab reloads its data when the user returns after an hour, but not after a moment',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/credits');
    await page.getByText('Spent this month').waitFor();
    const returnToTab = "document.dispatchEvent(new Event('visibilitychange'))";
    await page.evaluate(returnToTab);
    await page.evaluate('{ const now = Date.now(); Date.now = () => now + 3_600_000; }');
    const answer = page.waitForResponse('**/v1/customer/credits');
    await page.evaluate(returnToTab);
    await answer;
    const requests = tab.requests.filter((url) => url.endsWith('/v1/customer/credits'));
    expect(requests.length).toBe(2);
  },
  timeoutMs,
);

test(
  'the operator page warns about failing providers at the top',
  async () => {
    await using tab = await open();
    const { page } = tab;
    const endpoint = { upstream_model: 'up', priority: 0, failures_in_a_row: 5 };
    const noMeasurements = { first_byte_ms: null, tokens_per_second: null };
    const endpoints = (['closed', 'half_open', 'open', 'closed'] as const).map((circuit, index) => {
      return { ...endpoint, ...noMeasurements, model: `acme/chat-${index}`, circuit };
    });
    const failures = { timeout: 9, unreachable: 1_200 };
    const recent = { window_seconds: 890, calls: 1_612, failed_calls: 1_209, failures };
    const rejected = { ...recent, failed_calls: 2, failures: { credential: 2 } };
    const acme = { name: 'acme', dialect: 'openai', circuit: 'open', recent, endpoints };
    const closed = { ...acme, name: 'closed', recent: rejected, endpoints: endpoints.slice(0, 1) };
    const data = [acme, closed];
    await page.route('**/admin/v1/providers', (route) => route.fulfill({ json: { data } }));
    await tab.signIn(gateway.url, gateway.keys.admin);
    const warning = page.getByRole('status').filter({ hasText: 'endpoints' });
    await warning.waitFor();
    expect(await warning.innerText()).toBe(
      '1 of 5 endpoints is failing and 1 is recovering. Show endpoints',
    );
    await warning.getByRole('link').click();
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
      'unreachable 1,200, timed out 9',
    ]);
    expect(await page.getByText('Calls in the last 14 min').count()).toBe(1);
    expect(await page.getByText(/rejected a key/).allInnerTexts()).toEqual([
      'closed rejected a key. Run tollgate doctor to check providers.closed.api_key.',
    ]);
    expect(await tab.accessibilityViolations()).toEqual([]);
    await page.unroute('**/admin/v1/providers');
    await warning.waitFor({ state: 'detached' });
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test.each([
  ['/jobs?create=1', '**/v1/models', 'Model'],
  ['/skills?skill=json-only', '**/v1/customer/skills/json-only', 'Description'],
] as const)(
  'a form focuses its first field, even if the field is loaded later: %s',
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
    await form.getByText('Loading').waitFor();
    answered.resolve();
    await form.getByLabel(field).and(page.locator(':focus')).waitFor();
  },
  timeoutMs,
);

describe('an invalid URL', () => {
  test.each([
    ['/?split=toString&metric=constructor', 'management', 'By model'],
    ['/operator?sort=toString', 'admin', 'Default'],
  ] as const)(
    'falls back to the defaults: %s',
    async (path, who, text) => {
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys[who], path);
      await tab.page.getByText(text).first().waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'shows the default range for invalid dates, and a link to newer rows past the last page',
    async () => {
      await chat('demo/chat');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '?from=2026-13-45&to=2026-13-46');
      await page.getByText('30 days, compared with the previous 30').waitFor();
      await tab.settled();
      await page.goto(`${gateway.url}/dashboard/logs?offset=100000`);
      await page.getByText('After the last of').waitFor();
      await page.getByRole('button', { name: 'Newer' }).click();
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      await page.goto(`${gateway.url}/dashboard/keys?offset=-5`);
      await page.getByRole('row', { name: /your key/ }).waitFor();
      await page.goto(`${gateway.url}/dashboard/keys?offset=5000`);
      await page.getByText('No more keys').waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );
});

describe('a dialog', () => {
  test(
    'does not lose a new secret when the user presses Escape',

    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys?create=1');
      const form = page.getByRole('dialog', { name: 'Create a key' });
      await form.waitFor();
      // The dialog focuses its first field.
      await page.keyboard.type('Careful');
      // No response arrives between the two clicks.
      const clicked = Promise.withResolvers<void>();
      await page.route('**/api/v1/keys', async (route) => {
        await clicked.promise;
        await route.continue();
      });
      await form.getByRole('button', { name: 'Create' }).dblclick();
      clicked.resolve();
      const secretDialog = page.getByRole('dialog', { name: 'Secret of Careful' });
      await secretDialog.waitFor();
      for (const _ of [1, 2, 3]) await page.keyboard.press('Escape');
      expect(await secretDialog.getByLabel('secret').inputValue()).toStartWith('sk-tg-');
      expect(await secretDialog.getByRole('button', { name: 'Close' }).count()).toBe(0);
      await secretDialog.getByLabel("I've saved it").check();
      await page.keyboard.press('Escape');
      await secretDialog.waitFor({ state: 'detached' });
      await page.getByRole('row', { name: /Careful/ }).waitFor();
      expect(await page.getByRole('row', { name: /Careful/ }).count()).toBe(1);
    },
    timeoutMs,
  );

  test(
    'opens a collapsed section with an invalid field',
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
    timeoutMs,
  );

  test(
    'returns the focus to the button that opened it',
    async () => {
      await makeKey({ name: 'Kept' });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '/keys');
      await page.getByRole('button', { name: 'Delete Kept' }).focus();
      await page.keyboard.press('Enter');
      const confirmation = page.getByRole('dialog', { name: 'Delete Kept?' });
      await confirmation
        .getByRole('button', { name: 'Cancel' })
        .and(page.locator(':focus'))
        .waitFor();
      // The focus must return when the dialog is removed, not a frame later.
      await page.evaluate(`new MutationObserver(() => {
        if (document.querySelector('dialog') === null) window.focused ??= document.activeElement;
      }).observe(document.body, { childList: true, subtree: true })`);
      await page.keyboard.press('Escape');
      await confirmation.waitFor({ state: 'detached' });
      expect(await page.evaluate('window.focused.getAttribute("aria-label")')).toBe('Delete Kept');
    },
    timeoutMs,
  );
});

describe('the log', () => {
  test(
    'applies a filter that is selected before the first paint',
    async () => {
      await chat('demo/chat');
      await chat('demo/none');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/models');
      await tab.settled();
      // Selects a status right after the page is rendered, before it is painted.
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
    timeoutMs,
  );

  test(
    'ignores the incomplete years of a date being typed',
    async () => {
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await tab.settled();
      const entries = await page.evaluate('history.length');
      await page.getByLabel('From').focus();
      await page.keyboard.type('10012025');
      await page.waitForURL(/from=2025-10-01/);
      await tab.settled();
      expect(await page.evaluate('history.length')).toBe(entries);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'filters by model when typing has ended, not after every letter',
    async () => {
      await chat('demo/chat');
      await chat('demo/none');
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      await page.getByRole('cell', { name: 'demo/none' }).first().waitFor();
      const before = tab.requests.length;
      await page.getByLabel('Model', { exact: true }).pressSequentially('demo/chat');
      await page.keyboard.press('Enter');
      await page.getByRole('cell', { name: 'demo/none' }).first().waitFor({ state: 'detached' });
      await page.getByRole('cell', { name: 'demo/chat' }).first().waitFor();
      const logRequests = tab.requests.slice(before).filter((url) => url.includes('/logs?'));
      expect(logRequests.map((url) => new URL(url).searchParams.get('model'))).toEqual([
        'demo/chat',
      ]);
    },
    timeoutMs,
  );
});

describe('the playground', () => {
  test(
    'keeps a system prompt that is too long for a URL after a reload',
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
    timeoutMs,
  );

  test(
    'keeps the conversation while its receipt is open, and deletes it at sign-out',
    async () => {
      await using tab = await open();
      const { page } = tab;
      const path = '/playground?model=demo/chat';
      await tab.signIn(gateway.url, gateway.keys.api, path);
      await page.getByLabel('Your message').fill('Remember this');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.getByRole('link', { name: 'Receipt' }).click();
      await page.getByRole('dialog', { name: 'Receipt' }).waitFor();
      await page.goBack();
      await page.locator('.turn.user').getByText('Remember this').waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key or admin token').fill(gateway.keys.api);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('No messages yet').waitFor();
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );
});

describe('the overview', () => {
  test(
    'shows the names of more than 100 keys, with labels for equal names',
    async () => {
      for (let index = 0; index < 105; index++) await makeKey({ name: `app ${index}` });
      const [one, other] = [await makeKey({ name: 'twin' }), await makeKey({ name: 'twin' })];
      for (const { key } of [one, other]) expect((await chat('demo/chat', key)).status).toBe(200);
      await using tab = await open({ width: 1280, height: 720 });
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.management, '?split=api_key_id');
      const groups = page.getByRole('table', { name: 'Usage by key' });
      for (const { data } of [one, other]) {
        await groups.getByRole('link', { name: `twin (${data.label})` }).waitFor();
      }
      await page.getByLabel('Key', { exact: true }).selectOption(other.data.id);
      await page
        .getByRole('button', { name: /^Requests/ })
        .getByText('1', { exact: true })
        .waitFor();
      // All actions are visible on a small screen.
      await page.getByRole('link', { name: 'Keys', exact: true }).click();
      await page.getByRole('button', { name: 'Delete app 0', exact: true }).waitFor();
      const scrollWidth = 'document.querySelector(".table-frame").scrollWidth';
      const clientWidth = 'document.querySelector(".table-frame").clientWidth';
      expect(await page.evaluate(`${scrollWidth} - ${clientWidth}`)).toBe(0);
    },
    timeoutMs,
  );
});

describe('the credits page', () => {
  test(
    'shows what a limited key can still spend',
    async () => {
      const limited = await makeKey({ name: 'Limited', limit: 20_000, limit_reset: 'monthly' });
      const answer = await chat('demo/chat', limited.key);
      const { cost } = answer.body.usage as { cost: number };
      expect(cost).toBeGreaterThan(0);
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, limited.key, '/credits');
      const left = (20_000 - cost).toLocaleString('en-US');
      await page.getByText(`${left} of 20,000 credits left this month. Resets on`).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await tab.signIn(gateway.url, gateway.keys.api, '/credits');
      await page.getByText('This key has no limit').waitFor();
      expect(await tab.accessibilityViolations()).toEqual([]);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'explains that a tenant without credits has no statements',
    async () => {
      const { text } = await gateway.admin('POST', '/admin/v1/tenants', { name: 'Fresh' });
      const { id } = (JSON.parse(text) as { data: { id: string } }).data;
      const created = await gateway.admin('POST', `/admin/v1/tenants/${id}/keys`, {
        name: 'first',
      });
      await using tab = await open();
      const { key } = JSON.parse(created.text) as CreatedKey;
      await tab.signIn(gateway.url, key, '/credits');
      await tab.page.getByText('No statements yet').waitFor();
      expect(await tab.page.getByRole('table').count()).toBe(0);
    },
    timeoutMs,
  );
});
