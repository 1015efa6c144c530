/** /docs as a real browser shows it, in the light and in the dark, on a desk and on a phone. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desk, openBrowser, phone, Tab } from '../support/browser.ts';
import { InProcessGateway } from '../support/in-process.ts';

let gateway: InProcessGateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await InProcessGateway.start({ providers: {}, models: [], logs: { requests: false } });
  browser = await openBrowser();
}, 120_000);
afterAll(async () => {
  await browser.close();
  await gateway.stop();
});

test.concurrent.each([
  ['light', 'desk', desk],
  ['dark', 'phone', phone],
] as const)(
  '%s on a %s: styled, readable, and nothing is asked of anybody else',
  async (theme, _, size) => {
    await using tab = await Tab.open(browser, { theme, size });
    await tab.page.goto(`${gateway.url}/docs`);
    const ground = await tab.page.evaluate('getComputedStyle(document.body).backgroundColor');
    // Black on white without the style; these are its own.
    expect(ground).toBe(theme === 'light' ? 'rgb(251, 250, 247)' : 'rgb(23, 22, 20)');
    expect(await tab.overhang()).toBe(0);
    await tab.page.getByRole('link', { name: 'POST /v1/chat/completions' }).click();
    const article = tab.page.locator('#post_v1_chat_completions');
    await article.getByText('curl', { exact: true }).click();
    expect(await article.locator('pre').isVisible()).toBe(true);
    expect(await tab.barriers()).toEqual([]);
    const elsewhere = tab.requests.filter((url) => new URL(url).origin !== gateway.url);
    expect(elsewhere).toEqual([]);
    expect(tab.problems).toEqual([]);
  },
  120_000,
);
