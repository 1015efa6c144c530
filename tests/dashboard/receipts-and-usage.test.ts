import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser, Locator } from 'playwright-core';
import { desktop, openBrowser, Tab } from '../support/browser.ts';
import { avoidMidnight } from '../support/clock-boundaries.ts';
import {
  chatAnswer,
  cutMidStream,
  type FakeUpstream,
  startFakeUpstream,
  status,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { readStreamText } from '../support/sse-client.ts';

const timeoutMs = 120_000;
const dayMs = 86_400_000;

let upstream: FakeUpstream;
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  upstream = startFakeUpstream();
  upstream.script('chat', chatAnswer('An answer'));
  upstream.script('cut', cutMidStream(5));
  upstream.script(
    'expensive',
    chatAnswer('An answer', { usage: { prompt: 30_000, completion: 3 } }),
  );
  const expensive = { prompt: '10', completion: '1' };
  const models = { 'test/chat': {}, 'test/cut': {}, 'test/expensive': expensive };
  gateway = await startGateway({ upstreams: { fake: { url: upstream.url, models } } });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream?.stop();
});

const open = () => Tab.open(browser, { theme: 'light', size: desktop });
const chatBody = (model: string) => ({ model, messages: [{ role: 'user', content: 'Hi' }] });

/** Creates a tenant for one test, so that its numbers don't include requests of other tests. */
async function newTenant(id: string): Promise<string> {
  await gateway.admin('POST', '/admin/v1/tenants', { id, name: id });
  await gateway.admin('POST', `/admin/v1/tenants/${id}/credits`, { amount: 1_000 });
  return (await newKey(id)).key;
}

async function newKey(
  tenant: string,
  management = false,
): Promise<{ readonly id: string; readonly key: string }> {
  const body = { name: 'app', management };
  const created = await gateway.admin('POST', `/admin/v1/tenants/${tenant}/keys`, body);
  return { id: String((created.body.data as { id: unknown }).id), key: String(created.body.key) };
}

const receiptOf = (tab: Tab) => tab.page.getByRole('dialog', { name: 'Receipt' });
const idIn = (response: { readonly headers: Headers }) =>
  response.headers.get('x-request-id') ?? '';

test(
  'the log explains why a request was free',
  async () => {
    const key = await newTenant('repeats');
    const body = { ...chatBody('test/chat'), temperature: 0 };
    await gateway.chat(body, { key });
    await gateway.chat(body, { key });
    await using tab = await open();
    await tab.signIn(gateway.url, key, '/logs');
    const rows = tab.page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
    await rows.nth(1).waitFor();
    const [free, paid] = await rows.allInnerTexts();
    expect(free).toContain('Served an earlier answer again');
    expect(paid).not.toContain('earlier answer');
    expect(await tab.horizontalOverflow()).toBe(0);
  },
  timeoutMs,
);

describe('a receipt', () => {
  test(
    'explains the charge of an interrupted answer and marks the attempt',
    async () => {
      const stream = await gateway.request('POST', '/v1/chat/completions', {
        key: gateway.keys.api,
        body: { ...chatBody('test/cut'), stream: true },
      });
      expect(await readStreamText(stream)).toContain('w1');
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys.api, `/logs?request=${idIn(stream)}`);
      const receipt = receiptOf(tab);
      await receipt
        .getByText('The answer was cut off. The part that was received is charged.')
        .waitFor();
      const attempts = await receipt.locator('.attempts').innerText();
      expect(attempts).toContain('interrupted');
      expect(attempts).not.toContain('answered');
      expect(await tab.accessibilityViolations()).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'explains that the limit of the key was too low',
    async () => {
      const created = await gateway.manage('POST', '/api/v1/keys', { name: 'poor', limit: 1 });
      const rejected = await gateway.chat(chatBody('test/chat'), { key: String(created.body.key) });
      expect(rejected.status).toBe(402);
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys.management, `/logs?request=${idIn(rejected)}`);
      await receiptOf(tab)
        .getByText('This key has 1 credit left; the request needs at least')
        .waitFor();
    },
    timeoutMs,
  );

  test(
    'shows the cost in dollars',
    async () => {
      const answer = await gateway.chat(chatBody('test/chat'));
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys.api, `/logs?request=${idIn(answer)}`);
      await receiptOf(tab).getByText('3 credits, $0.000003', { exact: true }).waitFor();
    },
    timeoutMs,
  );

  test(
    'marks a failed attempt with the provider key of the tenant',
    async () => {
      const key = await newTenant('rejected-account');
      const { key: manager } = await newKey('rejected-account', true);
      const body = { api_key: 'sk-own-0123456789', mode: 'byok_only' };
      await gateway.call('PUT', '/api/v1/byok/fake', { key: manager, body });
      upstream.script('chat', status(401, 'This key ended in May.'));
      const answer = await gateway.chat(chatBody('test/chat'), { key });
      upstream.script('chat', chatAnswer('An answer'));
      await using tab = await open();
      await tab.signIn(gateway.url, key, `/logs?request=${idIn(answer)}`);
      const receipt = receiptOf(tab);
      await receipt.getByText('fake (BYOK, 401): This key ended in May.').waitFor();
      expect(await receipt.locator('.attempts').innerText()).toMatch(/^fake\s+\(BYOK\)/);
      const row = tab.page.getByRole('table', { name: 'Requests' }).locator('tbody tr').first();
      expect(await row.innerText()).toContain('no provider (BYOK)');
    },
    timeoutMs,
  );

  test.each([
    // 30,000 tokens at $10 per million and 3 at $1 are 300,003 credits; 5% are 15,000.15.
    ['byok', 'Platform fee for your own provider key', '15,001', '−14,001'],
    ['shared-capacity', 'Model charge', '300,003', '−299,003'],
  ])(
    'adds up if the wallet could not pay for the entire request: %s',
    async (tenant, fee, due, notCharged) => {
      const key = await newTenant(tenant);
      if (tenant === 'byok') {
        const { key: manager } = await newKey(tenant, true);
        const body = { api_key: 'sk-own-0123456789', mode: 'byok_only' };
        await gateway.call('PUT', '/api/v1/byok/fake', { key: manager, body });
      }
      const answer = await gateway.chat({ ...chatBody('test/expensive'), max_tokens: 5 }, { key });
      expect(answer.status).toBe(200);
      await using tab = await open();
      await tab.signIn(gateway.url, key, `/logs?request=${idIn(answer)}`);
      const bill = receiptOf(tab).getByRole('table', { name: 'Charge breakdown' });
      await bill.waitFor();
      const amountOf = (name: string) =>
        bill.locator('tr', { hasText: name }).locator('td').innerText();
      expect(await amountOf(fee)).toBe(due);
      expect(await amountOf('Not charged')).toBe(notCharged);
      expect(await amountOf('Total charged (credits)')).toBe('1,000');
    },
    timeoutMs,
  );

  test(
    'does not open for an incomplete request ID',
    async () => {
      const answer = await gateway.chat(chatBody('test/chat'));
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      const note = page.getByText("This isn't a complete request ID.");
      await page.getByLabel('Request ID').fill(idIn(answer).slice(0, -1));
      await note.waitFor();
      await page.getByLabel('Request ID').fill(idIn(answer));
      await receiptOf(tab).getByText(idIn(answer)).waitFor();
      expect(await note.count()).toBe(0);
    },
    timeoutMs,
  );

  test.each([
    ['chat', '/v1/chat/completions', chatBody('test/chat')],
    ['message', '/v1/messages', { ...chatBody('test/chat'), max_tokens: 50 }],
    ['response', '/v1/responses', { model: 'test/chat', input: 'Hi' }],
  ])(
    'opens by the ID in the body of a %s and by the ID of an exported log row',
    async (_, path, body) => {
      const answer = await gateway.call('POST', path, { key: gateway.keys.api, body });
      const requestId = idIn(answer);
      const { body: page } = await gateway.call('GET', '/v1/customer/logs?limit=1', {
        key: gateway.keys.api,
      });
      const [row] = page.logs as { id: string; request_id: string }[];
      expect(row?.request_id).toBe(requestId);
      await using tab = await open();
      await tab.signIn(gateway.url, gateway.keys.api, '/logs');
      for (const id of [String(answer.body.id), row?.id ?? '']) {
        await tab.page.getByLabel('Request ID').fill(id);
        await receiptOf(tab).getByText(requestId).waitFor();
        await tab.page.keyboard.press('Escape');
        await receiptOf(tab).waitFor({ state: 'detached' });
      }
    },
    timeoutMs,
  );
});

describe('the overview', () => {
  const tile = (tab: Tab, name: string) => tab.page.locator('.tile', { hasText: name }).innerText();

  test(
    'does not compare error rate and latency with days without requests',
    async () => {
      const key = await newTenant('newcomer');
      expect((await gateway.chat(chatBody('test/none'), { key })).status).toBe(404);
      const day = (time: number) => new Date(time).toISOString().slice(0, 10);
      await using tab = await open();
      await tab.signIn(gateway.url, key);
      await tab.page.getByText('Total: 1 request').waitFor();
      const first = await tile(tab, 'Error rate');
      expect(first).toContain('100%');
      expect(first).toContain('new in this period');

      // 30 future days, compared with 30 days that have one request.
      const [from, to] = [day(Date.now() + dayMs), day(Date.now() + 30 * dayMs)];
      await tab.page.goto(`${gateway.url}/dashboard?from=${from}&to=${to}`);
      await tab.page.getByText('Total: 0 requests').waitFor();
      for (const name of ['Error rate', 'Latency']) {
        const text = await tile(tab, name);
        expect(text).toContain('–');
        expect(text).not.toContain('▼');
      }
    },
    timeoutMs,
  );
});

describe('the chart of the overview', () => {
  const today = () => new Date().toISOString().slice(0, 10);

  test(
    'shows the hours of one day',
    async () => {
      await avoidMidnight();
      const key = await newTenant('hourly');
      await gateway.chat(chatBody('test/chat'), { key });
      await using tab = await open();
      const { page } = tab;
      await tab.signIn(gateway.url, key, `?from=${today()}&to=${today()}`);
      await page.getByRole('heading', { name: 'Credits spent by hour' }).waitFor();
      const chart = page.getByRole('slider', { name: 'Spend by hour and model' });
      expect(await chart.getAttribute('aria-valuemax')).toBe('23');
      await chart.focus();
      const hour = new Date().getUTCHours();
      const name = (start: number) =>
        `, ${String(start).padStart(2, '0')}:00–${String(start + 1).padStart(2, '0')}:00`;
      const shows = (start: number) =>
        page.locator('.legend b', { hasText: name(start) }).waitFor();
      await page.keyboard.press('End');
      await shows(23);
      await page.keyboard.press('Home');
      await shows(0);
      for (let step = 0; step < hour; step++) await page.keyboard.press('ArrowRight');
      await shows(hour);
      expect(await page.locator('.legend li .legend-value').innerText()).toBe('3');
      expect(await tab.accessibilityViolations()).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'keeps the color of a model when its rank changes',
    async () => {
      const key = await newTenant('colors');
      await gateway.chat(chatBody('test/chat'), { key });
      await gateway.chat(chatBody('test/none'), { key });
      await using tab = await open();
      const { page } = tab;
      const rows = page.getByRole('table', { name: 'Usage by model' }).locator('tbody tr');
      const colors = async () => {
        const found: [model: string, color: string][] = [];
        for (const row of await rows.all()) {
          const mark = row.locator('.group-name i');
          found.push([await row.locator('.group-name').innerText(), await styleOf(mark)]);
        }
        return found;
      };
      const styleOf = async (mark: Locator) => (await mark.getAttribute('style')) ?? '';
      await tab.signIn(gateway.url, key);
      await rows.nth(1).waitFor();
      const before = await colors();
      expect(before.map(([model]) => model)).toEqual(['test/chat', 'test/none']);
      expect(new Set(before.map(([, color]) => color)).size).toBe(2);
      await gateway.chat({ ...chatBody('test/expensive'), max_tokens: 5 }, { key });
      await page.getByRole('button', { name: 'Refresh' }).click();
      await rows.nth(2).waitFor();
      const [first, ...others] = await colors();
      expect(first?.[0]).toBe('test/expensive');
      expect(others).toEqual(before);
      const legend = page.locator('.legend li');
      const shown = await legend.evaluateAll((items) =>
        items.map((item) => item.querySelector('i')?.getAttribute('style')),
      );
      expect(shown).toEqual([first?.[1], ...before.map(([, color]) => color)]);
    },
    timeoutMs,
  );
});

describe('a number in the overview', () => {
  test(
    'links to exactly the requests that it counts',
    async () => {
      const other = await newTenant('two-keys');
      const { id, key } = await newKey('two-keys');
      for (const one of [other, key]) {
        await gateway.chat(chatBody('test/chat'), { key: one });
        expect((await gateway.chat(chatBody('test/none'), { key: one })).status).toBe(404);
      }
      await using tab = await open();
      const { page } = tab;
      const today = new Date().toISOString().slice(0, 10);
      const overview = `/dashboard?key=${id}&from=${today}&to=${today}`;
      await tab.signIn(gateway.url, key);
      const rowsBehind = async (link: string) => {
        await page.goto(gateway.url + overview);
        await page.getByRole('link', { name: link, exact: true }).click();
        await page.getByRole('heading', { level: 1, name: 'Logs' }).waitFor();
        await tab.settled();
        expect(await page.getByLabel('From').inputValue()).toBe(today);
        const rows = page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
        return rows.locator('code').allInnerTexts();
      };
      expect(await rowsBehind('2 requests')).toEqual(['test/none', 'test/chat']);
      expect(await rowsBehind('1 failed request')).toEqual(['test/none']);
      expect(await rowsBehind('test/chat')).toEqual(['test/chat']);
      expect(await rowsBehind('100.0%: 1 failed request of test/none')).toEqual(['test/none']);
      expect(tab.problems).toEqual([]);
    },
    timeoutMs,
  );
});

test(
  'the credits page shows small balances in dollars',
  async () => {
    const key = await newTenant('dollars');
    await using tab = await open();
    await tab.signIn(gateway.url, key, '/credits');
    const tile = tab.page.locator('.tile', { hasText: 'Available' });
    await tile.getByText('$0.001', { exact: true }).waitFor();
  },
  timeoutMs,
);

test(
  'the credits page uses the singular for 1 request',
  async () => {
    const key = await newTenant('single');
    await gateway.chat(chatBody('test/chat'), { key });
    await using tab = await open();
    await tab.signIn(gateway.url, key, '/credits');
    await tab.page.getByText(/, 1 request$/).waitFor();
  },
  timeoutMs,
);

test(
  'the credits page uses the singular for 1 credit',
  async () => {
    const created = await gateway.manage('POST', '/api/v1/keys', { name: 'penny', limit: 1 });
    await using tab = await open();
    await tab.signIn(gateway.url, String(created.body.key), '/credits');
    await tab.page.getByText('1 of 1 credit left.', { exact: true }).waitFor();
  },
  timeoutMs,
);
