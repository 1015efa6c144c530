/** Opens /docs in a real browser, in light and dark mode, on a desktop and on a phone. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, phone, Tab } from '../support/browser.ts';
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
  ['light', 'desktop', desktop],
  ['dark', 'phone', phone],
] as const)(
  'GET /docs in %s mode on a %s is styled, accessible, and loads nothing from other origins',
  async (theme, _, size) => {
    await using tab = await Tab.open(browser, { theme, size });
    await tab.page.goto(`${gateway.url}/docs`);
    const background = await tab.page.evaluate('getComputedStyle(document.body).backgroundColor');
    // These colors come from the style sheet; the default is white.
    expect(background).toBe(theme === 'light' ? 'rgb(251, 250, 247)' : 'rgb(23, 22, 20)');
    expect(await tab.horizontalOverflow()).toBe(0);
    await tab.page.getByRole('link', { name: 'POST /v1/chat/completions' }).click();
    const article = tab.page.locator('#post_v1_chat_completions');
    await article.getByText('curl', { exact: true }).click();
    expect(await article.locator('pre').isVisible()).toBe(true);
    expect(await tab.accessibilityViolations()).toEqual([]);
    const otherOrigins = tab.requests.filter((url) => new URL(url).origin !== gateway.url);
    expect(otherOrigins).toEqual([]);
    expect(tab.problems).toEqual([]);
  },
  120_000,
);
