import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { openStore } from '../../src/store/open.ts';
import { book, grant, makeRecord } from '../contracts/bookings.ts';
import { makeKey, makeTenant, randomHash } from '../contracts/engines.ts';
import { desk, openBrowser, phone, Tab } from '../support/browser.ts';
import { seedTraffic } from '../support/seed-traffic.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';

/** What a careful eye would complain about, measured in the page as it stands. */

const patienceMs = 120_000;
const tablet = { width: 768, height: 1_024 } as const;

const env = {
  TOLLGATE_BOOTSTRAP_API_KEY: `sk-tg-carefuleye0-${'a'.repeat(40)}`,
  TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: `sk-mgmt-carefuleye0-${'b'.repeat(40)}`,
  TOLLGATE_ADMIN_TOKEN: `sk-admin-${'c'.repeat(40)}`,
};

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  const dataDir = join(newFolder(), 'data');
  await seedTraffic(dataDir);
  await seedTroubled(dataDir);
  gateway = await startGateway({ dataDir, env });
  browser = await openBrowser();
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** A tenant half of whose eight requests failed. */
async function seedTroubled(dataDir: string): Promise<void> {
  const store = await openStore(`sqlite:${join(dataDir, 'tollgate.db')}`);
  try {
    await store.directory.addTenant(makeTenant({ id: 'troubled', name: 'Troubled Ltd' }));
    await grant(store, 'troubled', 1_000);
    const key = makeKey('troubled');
    await store.directory.addKey(key, randomHash());
    const records = Array.from({ length: 8 }, (_, at) =>
      makeRecord({
        tenantId: 'troubled',
        keyId: key.id,
        status: at % 2 === 0 ? 'success' : 'error',
        error: at % 2 === 0 ? null : 'upstream_error',
        createdAt: Date.now(),
      }),
    );
    await book(store, records);
  } finally {
    await store.database.close();
  }
}

type Size = { readonly width: number; readonly height: number };

async function see(size: Size, who: 'management' | 'admin', path: string): Promise<Tab> {
  const tab = await Tab.open(browser, { theme: 'light', size });
  await tab.signIn(gateway.url, gateway.keys[who], path);
  await tab.settled();
  return tab;
}

const linesOfFigures = `[...document.querySelectorAll('.tile strong')].map((figure) => {
  const range = document.createRange();
  range.selectNodeContents(figure);
  return range.getClientRects().length;
})`;

const edgesOfFirstCard = `[...document.querySelector('tbody tr').children].map((cell) => {
  const { paddingLeft, paddingRight } = getComputedStyle(cell);
  return paddingLeft + ' ' + paddingRight;
})`;

describe.each([
  ['a phone', phone],
  ['a tablet', tablet],
] as const)('on %s', (_, size) => {
  test(
    'no figure is broken in two',
    async () => {
      await using tab = await see(size, 'management', '/credits');
      const figures = tab.page.locator('.tile strong');
      await figures
        .filter({ hasText: /^\d\d,\d{3},\d{3}$/ })
        .first()
        .waitFor();
      expect(await tab.page.evaluate(linesOfFigures)).toEqual([1, 1, 1, 1]);
    },
    patienceMs,
  );

  test(
    'the lines of a card begin and end below each other',
    async () => {
      await using tab = await see(size, 'management', '/keys');
      await tab.page.getByText('Nightly reports').waitFor();
      const edges = (await tab.page.evaluate(edgesOfFirstCard)) as string[];
      expect(edges.length).toBe(7);
      expect(new Set(edges)).toEqual(new Set(['0px 0px']));
    },
    patienceMs,
  );
});

const gapBesideTiles = `(() => {
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
  'no tile of %s%s stands beside a gap, however wide the window',
  async (who, path) => {
    await using tab = await see(desk, who, path);
    const { page } = tab;
    await page.locator('.tile').nth(3).waitFor();
    for (const width of [320, 390, 560, 700, 768, 1_024, 1_440]) {
      await page.setViewportSize({ width, height: 900 });
      expect([width, await page.evaluate(gapBesideTiles)]).toEqual([width, 0]);
    }
  },
  patienceMs,
);

test(
  'the last day under a chart is not cut off on a phone',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    const { page } = tab;
    // The days of a month so far, of which the last has a name.
    await page.route('**/v1/customer/analytics?*', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { timeseries: Record<string, unknown>[] };
      const [first = {}] = body.timeseries;
      const timeseries = Array.from({ length: 16 }, (_, at) => {
        return { ...first, date: `2026-11-${String(at + 1).padStart(2, '0')}` };
      });
      await route.fulfill({ json: { ...body, timeseries } });
    });
    await tab.signIn(gateway.url, gateway.keys.management, '/credits');
    await page.locator('canvas').waitFor();
    const inkAtTheEdge = `(() => {
      const canvas = document.querySelector('canvas');
      const { width, height } = canvas;
      const { data } = canvas.getContext('2d').getImageData(width - 1, 0, 1, height);
      return data.reduce((sum, value) => sum + value, 0);
    })()`;
    expect(await page.evaluate(inkAtTheEdge)).toBe(0);
  },
  patienceMs,
);

test(
  'below lines too, the legend knows the numbers of the whole period',
  async () => {
    await using tab = await see(desk, 'management', '?metric=latency&split=provider');
    const values = tab.page.locator('.legend li .legend-value');
    await values.first().waitFor();
    const times = await values.allInnerTexts();
    expect(times.length).toBeGreaterThan(4);
    expect(times.filter((text) => !/^[\d.,]+ m?s$/.test(text))).toEqual([]);
  },
  patienceMs,
);

const heightOf = (page: Page) => page.evaluate('document.documentElement.scrollHeight');

test(
  'the page stands still under a pointer on the chart, whose legend adds up the day',
  async () => {
    await using tab = await see({ width: 1_000, height: 900 }, 'management', '?split=model');
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
    const [whole = 0, ...parts] = numbers.map(creditsOf);
    const sum = parts.reduce((total, part) => total + part, 0);
    // Each is shortened to three digits.
    expect(parts.length).toBe(4);
    expect(Math.abs(whole - sum) / sum).toBeLessThan(0.02);
  },
  patienceMs,
);

test(
  'the days of a chart are read by keyboard, and heard',
  async () => {
    await using tab = await see(desk, 'management', '/credits');
    const { page } = tab;
    const chart = page.getByRole('slider', { name: /day by day/ });
    const shows = (text: RegExp) => page.locator('.legend b', { hasText: text }).waitFor();
    const today = new Date().getUTCDate();
    await chart.focus();
    await shows(/^Whole period$/);
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
    await shows(/^Whole period$/);
  },
  patienceMs,
);

function creditsOf(text: string): number {
  const [, number = '', unit = ''] = /^([\d.,]+)([KM]?)$/.exec(text.trim()) ?? [];
  return Number(number.replaceAll(',', '')) * ({ K: 1_000, M: 1_000_000 }[unit] ?? 1);
}

test(
  'whoever turns a page of the log reads the next one from its top',
  async () => {
    await using tab = await see(desk, 'management', '/logs');
    const { page } = tab;
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByText('51 to 100 of').waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
  },
  patienceMs,
);

test(
  'an operator sees at once whose requests fail',
  async () => {
    await using tab = await see(desk, 'admin', '/operator');
    const mark = tab.page.locator('.badge.bad', { hasText: 'failed' });
    const rows = tab.page.getByRole('table', { name: 'Tenants' }).locator('tbody tr');
    await mark.first().waitFor();
    expect(await mark.allInnerTexts()).toEqual(['50% failed']);
    expect(await rows.filter({ has: mark }).innerText()).toContain('Troubled Ltd');
  },
  patienceMs,
);

test(
  'on paper there is nothing to press, and it is white',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: desk });
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
  patienceMs,
);

test(
  'in colours of the system one still sees what is chosen, and which line is whose',
  async () => {
    await using tab = await see(desk, 'management', '');
    const { page } = tab;
    await page.emulateMedia({ forcedColors: 'active' });
    const stylesOf = (selector: string, name: string) =>
      page.evaluate(
        `[...document.querySelectorAll('${selector}')].map((one) => getComputedStyle(one).${name})`,
      ) as Promise<string[]>;
    for (const place of ['.segments', '.metric-tiles']) {
      const [chosen] = await stylesOf(`${place} [aria-pressed=true]`, 'borderColor');
      const others = await stylesOf(`${place} [aria-pressed=false]`, 'borderColor');
      expect(others.length).toBeGreaterThan(3);
      expect(others).not.toContain(chosen ?? '');
    }
    const marks = await stylesOf('.legend i', 'backgroundColor');
    expect(marks.length).toBe(4);
    expect(new Set(marks).size).toBe(4);
  },
  patienceMs,
);

test(
  'a new secret is seen from its first letter to its last',
  async () => {
    await using tab = await see(phone, 'management', '/keys?create=1');
    const { page } = tab;
    await page.getByLabel('Name').fill('Newcomer');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    const secret = page.getByRole('textbox', { name: 'secret', exact: true });
    await secret.waitFor();
    const hidden = await secret.evaluate((area) => [
      area.scrollWidth - area.clientWidth,
      area.scrollHeight - area.clientHeight,
    ]);
    expect(hidden).toEqual([0, 0]);
  },
  patienceMs,
);
