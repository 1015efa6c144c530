/**
 * Measures, inside a dashboard page, when the API's responses arrived and when the last change that
 * they caused was painted. The browser's own timestamps exclude the delay of remote control.
 */
import type { Page } from 'playwright-core';

export interface PageTimes {
  /** The number of calls to the API. */
  readonly responses: number;
  readonly slowestResponseMs: number;
  /** From the last byte of the last response to the frame that shows it. */
  readonly paintedAfterMs: number;
}

/** After this long without a change or a request, a page shows all its data. */
const quietMs = 700;

/** Records the time of each change to the document and of the frame that shows it. */
const clock = `
  (() => {
    const clock = { requested: 0, changedAt: 0, paintedAt: 0 };
    window.pageTimes = clock;
    const fetch = window.fetch;
    window.fetch = (...args) => { clock.requested += 1; return fetch(...args); };
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { clock.paintedAt = performance.now(); };
    let isPending = false;
    new MutationObserver(() => {
      clock.changedAt = performance.now();
      if (isPending) return;
      isPending = true;
      // A message posted before a frame arrives after the frame is painted.
      requestAnimationFrame(() => { isPending = false; channel.port2.postMessage(0); });
    }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  })();
`;

export async function watchPage(page: Page): Promise<void> {
  await page.addInitScript(clock);
}

const read = `
  new Promise((resolve) => {
    const isApi = ({ initiatorType }) => initiatorType === 'fetch';
    const calls = () => performance.getEntriesByType('resource').filter(isApi);
    const check = () => {
      const { requested, changedAt, paintedAt } = window.pageTimes;
      const ends = calls().map(({ responseEnd }) => responseEnd);
      const isQuiet = performance.now() - Math.max(changedAt, paintedAt, ...ends) >= ${quietMs};
      if (!isQuiet || ends.length < requested) return setTimeout(check, 100);
      const before = calls().filter(({ responseEnd }) => responseEnd <= changedAt);
      resolve({
        responses: before.length,
        slowestResponseMs: Math.max(...before.map(({ duration }) => duration)),
        paintedAfterMs: paintedAt - Math.max(...before.map(({ responseEnd }) => responseEnd)),
      });
    };
    check();
  })
`;

/** Waits until the page has stopped changing, then returns its times. */
export async function readTimes(page: Page): Promise<PageTimes> {
  return (await page.evaluate(read)) as PageTimes;
}
