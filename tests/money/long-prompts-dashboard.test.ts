/** How the dashboard shows price tiers for long prompts. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { openBrowser, phone, Tab } from '../support/browser.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const testTimeoutMs = 120_000;
const upstream = startFakeUpstream();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  const tier = { above_tokens: 200_000, prompt: '4', completion: '18.00' };
  const pricing = { cache_read: '0.20', long_prompts: [tier] };
  const tiered = { prompt: '2', completion: '12', pricing };
  gateway = await startGateway({
    upstreams: { fake: { url: upstream.url, models: { 'acme/chat': tiered } } },
  });
  browser = await openBrowser();
}, testTimeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream.stop();
});

test(
  'lists price tiers below the prices of a model',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    await tab.signIn(gateway.url, gateway.keys.api, '/models?model=acme/chat');
    const endpoints = tab.page.getByRole('dialog').locator('.endpoints');
    await endpoints.getByText('if the prompt exceeds 200,000 tokens').waitFor();
    expect(await endpoints.locator('.prices').allInnerTexts()).toEqual([
      [
        '$2.00 input, per million tokens',
        '$12.00 output, per million tokens',
        '$0.20 cached input, per million tokens',
      ].join('\n'),
      '$4.00 input, per million tokens\n$18.00 output, per million tokens',
    ]);
    expect(await tab.accessibilityViolations()).toEqual([]);
    expect(await tab.horizontalOverflow()).toBe(0);
  },
  testTimeoutMs,
);

test(
  'shows the applied price tier in a receipt',
  async () => {
    upstream.script('chat', chatAnswer('Hi', { usage: { prompt: 200_001, completion: 10 } }));
    const messages = [{ role: 'user', content: 'x'.repeat(200_001) }];
    const { headers } = await gateway.chat({ model: 'acme/chat', messages });
    const id = headers.get('x-request-id');
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    await tab.signIn(gateway.url, gateway.keys.api, `/logs?request=${id}`);
    const charges = tab.page.getByRole('table', { name: 'Charge breakdown' });
    await charges.getByText('200,001 × $4.00 per million').waitFor();
    await charges.getByText('10 × $18.00 per million').waitFor();
    await tab.page.getByText('The prices for prompts above 200,000 tokens').waitFor();
    // 800,004 for the prompt and 180 for the completion.
    expect(
      await charges.getByRole('row', { name: 'Total charged (credits)' }).innerText(),
    ).toContain('800,184');
    expect(await tab.accessibilityViolations()).toEqual([]);
  },
  testTimeoutMs,
);
