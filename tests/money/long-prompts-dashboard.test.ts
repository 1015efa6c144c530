/** Prices that step with the prompt's length, as people see them. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { openBrowser, phone, Tab } from '../support/browser.ts';
import { say, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const patienceMs = 120_000;
const upstream = startFakeUpstream();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  const step = { above_tokens: 200_000, prompt: '4', completion: '18.00' };
  const pricing = { cache_read: '0.20', long_prompts: [step] };
  const stepped = { prompt: '2', completion: '12', pricing };
  gateway = await startGateway({
    upstreams: { fake: { url: upstream.url, models: { 'acme/chat': stepped } } },
  });
  browser = await openBrowser();
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream.stop();
});

test(
  'a model’s sheet lists them below its prices',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    await tab.signIn(gateway.url, gateway.keys.api, '/models?model=acme/chat');
    const place = tab.page.getByRole('dialog').locator('.endpoints');
    await place.getByText('with a prompt above 200,000 tokens').waitFor();
    expect(await place.locator('.prices').allInnerTexts()).toEqual([
      [
        '$2.00 input, per million tokens',
        '$12.00 output, per million tokens',
        '$0.20 cached input, per million tokens',
      ].join('\n'),
      '$4.00 input, per million tokens\n$18.00 output, per million tokens',
    ]);
    expect(await tab.barriers()).toEqual([]);
    expect(await tab.overhang()).toBe(0);
  },
  patienceMs,
);

test(
  'a receipt shows the ones that were used, and says so',
  async () => {
    upstream.script('chat', say('Hi', { usage: { prompt: 200_001, completion: 10 } }));
    const messages = [{ role: 'user', content: 'Hi' }];
    const { headers } = await gateway.chat({ model: 'acme/chat', messages });
    const id = headers.get('x-request-id');
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    await tab.signIn(gateway.url, gateway.keys.api, `/logs?request=${id}`);
    const bill = tab.page.getByRole('table', { name: 'Charge, line by line' });
    await bill.getByText('200,001 × $4.00 per million').waitFor();
    await bill.getByText('10 × $18.00 per million').waitFor();
    await tab.page.getByText('Prices of prompts above 200,000 tokens').waitFor();
    // 800,004 and 180.
    expect(await bill.getByRole('row', { name: 'Charged, in credits' }).innerText()).toContain(
      '800,184',
    );
    expect(await tab.barriers()).toEqual([]);
  },
  patienceMs,
);
