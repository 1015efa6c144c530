/**
 * A clock inside a page of the dashboard: when the API's answers arrived, and when the last change
 * that they made was painted. It uses the browser's own timestamps, so the way to the browser's
 * control socket and back is not measured.
 */
import type { Page } from 'playwright-core';

export interface PageTimes {
  /** The number of calls to the API. */
  readonly answers: number;
  readonly slowestAnswerMs: number;
  /** From the last byte of the last answer to the frame that shows it. */
  readonly paintedAfterMs: number;
}

/** A page without changes and requests for this long shows all its data. */
const quietMs = 700;

/** Notes every change of the document and the frame that shows it. */
const clock = `
  (() => {
    const clock = { asked: 0, changedAt: 0, paintedAt: 0 };
    window.pageClock = clock;
    const fetch = window.fetch;
    window.fetch = (...words) => { clock.asked += 1; return fetch(...words); };
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { clock.paintedAt = performance.now(); };
    let isAsked = false;
    new MutationObserver(() => {
      clock.changedAt = performance.now();
      if (isAsked) return;
      isAsked = true;
      // A message sent before a frame arrives once the frame is drawn.
      requestAnimationFrame(() => { isAsked = false; channel.port2.postMessage(0); });
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
    const look = () => {
      const { asked, changedAt, paintedAt } = window.pageClock;
      const ends = calls().map(({ responseEnd }) => responseEnd);
      const isQuiet = performance.now() - Math.max(changedAt, paintedAt, ...ends) >= ${quietMs};
      if (!isQuiet || ends.length < asked) return setTimeout(look, 100);
      const before = calls().filter(({ responseEnd }) => responseEnd <= changedAt);
      resolve({
        answers: before.length,
        slowestAnswerMs: Math.max(...before.map(({ duration }) => duration)),
        paintedAfterMs: paintedAt - Math.max(...before.map(({ responseEnd }) => responseEnd)),
      });
    };
    look();
  })
`;

/** Waits until the page is quiet. */
export async function readTimes(page: Page): Promise<PageTimes> {
  return (await page.evaluate(read)) as PageTimes;
}
