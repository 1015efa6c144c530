import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { openStore } from '../../src/store/open.ts';
import { book, grant, makeRecord } from '../contracts/bookings.ts';
import { makeKey, makeTenant, randomHash } from '../contracts/engines.ts';
import { desktop, openBrowser, phone, Tab } from '../support/browser.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { seedTraffic } from '../support/seed-traffic.ts';

const timeoutMs = 120_000;
const tablet = { width: 768, height: 1_024 } as const;

const env = {
  TOLLGATE_BOOTSTRAP_API_KEY: `sk-tg-layoutkey00-${'a'.repeat(40)}`,
  TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: `sk-mgmt-layoutkey00-${'b'.repeat(40)}`,
  TOLLGATE_ADMIN_TOKEN: `sk-admin-${'c'.repeat(40)}`,
};

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  const dataDir = join(newFolder(), 'data');
  await seedTraffic(dataDir);
  await seedFailures(dataDir);
  gateway = await startGateway({ dataDir, env });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** Adds a tenant with 8 requests, half of which failed. */
async function seedFailures(dataDir: string): Promise<void> {
  const store = await openStore(`sqlite:${join(dataDir, 'tollgate.db')}`);
  try {
    await store.directory.addTenant(makeTenant({ id: 'troubled', name: 'Troubled Ltd' }));
    await grant(store, 'troubled', 1_000);
    const key = makeKey('troubled');
    await store.directory.addKey(key, randomHash());
    const records = Array.from({ length: 8 }, (_, index) =>
      makeRecord({
        tenantId: 'troubled',
        keyId: key.id,
        status: index % 2 === 0 ? 'success' : 'error',
        error: index % 2 === 0 ? null : 'upstream_error',
        createdAt: Date.now(),
      }),
    );
    await book(store, records);
  } finally {
    await store.database.close();
  }
}

type Size = { readonly width: number; readonly height: number };

async function openAt(size: Size, who: 'management' | 'admin', path: string): Promise<Tab> {
  const tab = await Tab.open(browser, { theme: 'light', size });
  await tab.signIn(gateway.url, gateway.keys[who], path);
  await tab.settled();
  return tab;
}

const linesPerValue = `[...document.querySelectorAll('.tile strong')].map((value) => {
  const range = document.createRange();
  range.selectNodeContents(value);
  return range.getClientRects().length;
})`;

const cellPadding = `[...document.querySelector('tbody tr').children].map((cell) => {
  const { paddingLeft, paddingRight } = getComputedStyle(cell);
  return paddingLeft + ' ' + paddingRight;
})`;

describe.each([
  ['phone', phone],
  ['tablet', tablet],
] as const)('the layout on a %s', (_, size) => {
  test(
    'shows each number of a tile on one line',
    async () => {
      await using tab = await openAt(size, 'management', '/credits');
      const values = tab.page.locator('.tile strong');
      await values
        .filter({ hasText: /^\d\d,\d{3},\d{3}$/ })
        .first()
        .waitFor();
      expect(await tab.page.evaluate(linesPerValue)).toEqual([1, 1, 1, 1]);
    },
    timeoutMs,
  );

  test(
    'aligns the lines of a card',
    async () => {
      await using tab = await openAt(size, 'management', '/keys');
      await tab.page.getByText('Nightly reports').waitFor();
      const paddings = (await tab.page.evaluate(cellPadding)) as string[];
      expect(paddings.length).toBe(7);
      expect(new Set(paddings)).toEqual(new Set(['0px 0px']));
    },
    timeoutMs,
  );
});

const gapAfterTiles = `(() => {
  const frame = document.querySelector('.tiles').getBoundingClientRect();
  const tiles = [...document.querySelectorAll('.tile')].map((tile) => tile.getBoundingClientRect());
  const ends = tiles.map(({ top, right }) => [top, right]).toSorted((a, b) => a[1] - b[1]);
  return Math.max(...new Map(ends).values().map((right) => Math.round(frame.right - right)));
})()`;

test.each([
  ['management', ''],
  ['management', '/credits'],
  ['admin', '/operator'],
] as const)(
  'the tiles fill each row at every window width (%s key, %s)',
  async (who, path) => {
    await using tab = await openAt(desktop, who, path);
    const { page } = tab;
    await page.locator('.tile').nth(3).waitFor();
    for (const width of [320, 390, 560, 700, 768, 1_024, 1_440]) {
      await page.setViewportSize({ width, height: 900 });
      expect([width, await page.evaluate(gapAfterTiles)]).toEqual([width, 0]);
    }
  },
  timeoutMs,
);

test(
  'the last day below a chart is not cut off on a phone',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    const { page } = tab;
    // 16 days, so that the last one has a label.
    await page.route('**/v1/customer/analytics?*', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { timeseries: Record<string, unknown>[] };
      const [first = {}] = body.timeseries;
      const timeseries = Array.from({ length: 16 }, (_, index) => {
        return { ...first, date: `2026-11-${String(index + 1).padStart(2, '0')}` };
      });
      await route.fulfill({ json: { ...body, timeseries } });
    });
    await tab.signIn(gateway.url, gateway.keys.management, '/credits');
    await page.locator('canvas').waitFor();
    const inkAtEdge = `(() => {
      const canvas = document.querySelector('canvas');
      const { width, height } = canvas;
      const { data } = canvas.getContext('2d').getImageData(width - 1, 0, 1, height);
      return data.reduce((sum, value) => sum + value, 0);
    })()`;
    expect(await page.evaluate(inkAtEdge)).toBe(0);
  },
  timeoutMs,
);

test(
  'a chart of a single day shows its bar in the middle',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    const { page } = tab;
    await page.route('**/v1/customer/analytics?*', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { timeseries: Record<string, unknown>[] };
      const timeseries = [{ ...body.timeseries[0], spend: 500 }];
      await route.fulfill({ json: { ...body, timeseries } });
    });
    await tab.signIn(gateway.url, gateway.keys.management, '/credits');
    await page.locator('canvas').waitFor();
    const inkInMiddle = `(() => {
      const canvas = document.querySelector('canvas');
      const { width, height } = canvas;
      // The axis of amounts is on the left.
      const middle = Math.round((width + 40 * devicePixelRatio) / 2);
      const { data } = canvas.getContext('2d').getImageData(middle, 0, 1, height);
      return data.filter((value, index) => index % 4 === 3 && value === 255).length / height;
    })()`;
    expect(Number(await page.evaluate(inkInMiddle))).toBeGreaterThan(0.5);
  },
  timeoutMs,
);

test(
  'the legend of a line chart shows the averages of the entire period',
  async () => {
    await using tab = await openAt(desktop, 'management', '?metric=latency&split=provider');
    const values = tab.page.locator('.legend li .legend-value');
    await values.first().waitFor();
    const times = await values.allInnerTexts();
    expect(times.length).toBeGreaterThan(4);
    expect(times.filter((text) => !/^[\d.,]+ m?s$/.test(text))).toEqual([]);
  },
  timeoutMs,
);

const heightOf = (page: Page) => page.evaluate('document.documentElement.scrollHeight');

test(
  'the height of the page does not change while the pointer moves over a chart',
  async () => {
    await using tab = await openAt({ width: 1_000, height: 900 }, 'management', '?split=model');
    const { page } = tab;
    const legend = page.locator('.legend');
    const before = await heightOf(page);
    const frame = await page.locator('.chart-frame').boundingBox();
    const days = new Set<string>();
    for (let step = 0; step < 30; step++) {
      const { x = 0, y = 0, width = 0 } = frame ?? {};
      await page.mouse.move(x + 75 + (step * (width - 120)) / 30, y + 100);
      expect(await heightOf(page)).toBe(before);
      days.add(await legend.locator('b').innerText());
    }
    expect(days.size).toBeGreaterThan(20);
    const numbers = await legend.locator('.legend-value').allInnerTexts();
    const [total = 0, ...parts] = numbers.map(creditsOf);
    const sum = parts.reduce((subtotal, part) => subtotal + part, 0);
    // Each number is rounded to 3 digits.
    expect(parts.length).toBe(4);
    expect(Math.abs(total - sum) / sum).toBeLessThan(0.02);
  },
  timeoutMs,
);

test(
  'the arrow keys select a day of a chart, and screen readers get its numbers',
  async () => {
    await using tab = await openAt(desktop, 'management', '/credits');
    const { page } = tab;
    const chart = page.getByRole('slider', { name: /spent by day/ });
    const shows = (text: RegExp) => page.locator('.legend b', { hasText: text }).waitFor();
    const today = new Date().getUTCDate();
    await chart.focus();
    await shows(/^Entire period$/);
    await page.keyboard.press('End');
    await shows(new RegExp(`^${today} \\w+$`));
    await page.keyboard.press('ArrowLeft');
    await shows(new RegExp(`^${Math.max(1, today - 1)} \\w+$`));
    await page.keyboard.press('Home');
    await shows(/^1 \w+$/);
    const amount = await page.locator('.legend-value').innerText();
    expect(await chart.getAttribute('aria-valuetext')).toMatch(
      new RegExp(`^1 \\w+: Credits ${amount}$`),
    );
    await page.keyboard.press('Tab');
    await shows(/^Entire period$/);
  },
  timeoutMs,
);

function creditsOf(text: string): number {
  const [, number = '', unit = ''] = /^([\d.,]+)([KM]?)$/.exec(text.trim()) ?? [];
  return Number(number.replaceAll(',', '')) * ({ K: 1_000, M: 1_000_000 }[unit] ?? 1);
}

test(
  'the next page of the log starts at the top',
  async () => {
    await using tab = await openAt(desktop, 'management', '/logs');
    const { page } = tab;
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByText('51 to 100 of').waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
  },
  timeoutMs,
);

test(
  'the operator page marks tenants with many failed requests',
  async () => {
    await using tab = await openAt(desktop, 'admin', '/operator');
    const badge = tab.page.locator('.badge.bad', { hasText: 'failed' });
    const rows = tab.page.getByRole('table', { name: 'Tenants' }).locator('tbody tr');
    await badge.first().waitFor();
    expect(await badge.allInnerTexts()).toEqual(['50% failed']);
    expect(await rows.filter({ has: badge }).innerText()).toContain('Troubled Ltd');
  },
  timeoutMs,
);

test(
  'the print layout hides controls and uses the light theme',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: desktop });
    await tab.signIn(gateway.url, gateway.keys.management, '/credits');
    await tab.settled();
    const { page } = tab;
    await page.emulateMedia({ media: 'print' });
    await page.getByText('Statements').first().waitFor();
    expect(await page.locator('#navigation').isVisible()).toBe(false);
    expect(await page.getByRole('button', { name: 'Refresh' }).isVisible()).toBe(false);
    const ink = await page.evaluate(
      'getComputedStyle(document.documentElement).getPropertyValue("--ink").trim()',
    );
    expect(ink).toBe('#1d1c19');
  },
  timeoutMs,
);

test(
  'high-contrast mode still shows the selection and the colors of the legend',
  async () => {
    await using tab = await openAt(desktop, 'management', '');
    const { page } = tab;
    await page.emulateMedia({ forcedColors: 'active' });
    const stylesOf = (selector: string, name: string) =>
      page.evaluate(
        `[...document.querySelectorAll('${selector}')].map((one) => getComputedStyle(one).${name})`,
      ) as Promise<string[]>;
    for (const group of ['.segments', '.metric-tiles']) {
      const [chosen] = await stylesOf(`${group} [aria-pressed=true]`, 'borderColor');
      const others = await stylesOf(`${group} [aria-pressed=false]`, 'borderColor');
      expect(others.length).toBeGreaterThan(3);
      expect(others).not.toContain(chosen ?? '');
    }
    const swatches = await stylesOf('.legend i', 'backgroundColor');
    expect(swatches.length).toBe(4);
    expect(new Set(swatches).size).toBe(4);
  },
  timeoutMs,
);

test(
  'a new secret is visible in full on a phone',
  async () => {
    await using tab = await openAt(phone, 'management', '/keys?create=1');
    const { page } = tab;
    await page.getByLabel('Name').fill('Newcomer');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    const secret = page.getByRole('textbox', { name: 'secret', exact: true });
    await secret.waitFor();
    const overflow = await secret.evaluate((area) => [
      area.scrollWidth - area.clientWidth,
      area.scrollHeight - area.clientHeight,
    ]);
    expect(overflow).toEqual([0, 0]);
  },
  timeoutMs,
);
