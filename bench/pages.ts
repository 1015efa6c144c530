/**
 * Measures how soon the dashboard shows the API's responses with millions of requests in the log.
 * Fills a SQLite file, starts the gateway on it, and opens every page in Chromium. Run it with
 * `bun bench/pages.ts [rows]` (default: 5,000,000). It needs 4 GB of disk and several minutes.
 */
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, Tab } from '../tests/support/browser.ts';
import { fillSqlite } from './fill-log.ts';
import { type PageTimes, readTimes, watchPage } from './page-times.ts';
import { adminToken, clientKey, managerKey, Processes, type Server } from './processes.ts';
import { modelAlias } from './workloads.ts';

const rows = Number((process.argv[2] ?? '5000000').replace(/[_,]/g, ''));
if (!Number.isSafeInteger(rows) || rows < 100) {
  process.stderr.write('The number of rows must be a whole number of at least 100.\n');
  process.exit(2);
}

const days = 30;
const dayMs = 86_400_000;
const msMax = 300;
const rounds = 5;
const name = 'pages';
const today = Math.floor(Date.now() / dayMs) * dayMs;

interface View {
  readonly name: string;
  readonly path: string;
  readonly key: string;
  /** A selector that matches only once the data is loaded. */
  readonly shows: string;
}

function viewsOf(requestId: string): readonly View[] {
  const view = (title: string, path: string, shows: string, key = managerKey): View => ({
    name: title,
    path,
    key,
    shows,
  });
  const deep = Math.floor(rows / 2);
  const date = (back: number) => new Date(today - back * dayMs).toISOString().slice(0, 10);
  const quarter = `from=${date(89)}&to=${date(0)}`;
  return [
    view('overview, by model', '', 'canvas'),
    view(
      'overview, latency by key, 90 days',
      `?metric=latency&split=api_key_id&${quarter}`,
      'canvas',
    ),
    view('logs, newest', '/logs', 'tbody tr:nth-child(50)'),
    view('logs, in the middle', `/logs?offset=${deep}`, 'tbody tr:nth-child(50)'),
    view('logs, failures', '/logs?status=error', 'tbody tr'),
    view('logs, one model', '/logs?model=acme/chat-1', 'tbody tr:nth-child(50)'),
    view('receipt', `/logs?request=${requestId}`, 'text=Total charged (credits)'),
    view('credits', '/credits', 'tbody tr'),
    view('keys', '/keys', 'tbody tr'),
    view('models', '/models', `text=${modelAlias}`),
    view('model', `/models?model=${modelAlias}`, 'text=per million tokens'),
    view('playground', `/playground?model=${modelAlias}`, 'text=No messages yet', clientKey),
    view('jobs', '/jobs', 'text=No jobs found', clientKey),
    view('skills', '/skills', 'text=built-in'),
    view('provider keys', '/byok', '.empty'),
    view('operator', '/operator', 'tbody tr', adminToken),
  ];
}

/** Starts the gateway once to create the tables, then fills them. */
async function fill(processes: Processes, upstream: Server): Promise<void> {
  await processes.end(await processes.gateway(upstream, name));
  const filling = { rows, from: today - (days - 1) * dayMs, until: today + dayMs };
  const file = join(processes.dataOf(name), 'tollgate.db');
  const start = performance.now();
  const isTerminal = process.stdout.isTTY;
  let printedPercent = 0;
  await fillSqlite(file, filling, (share) => {
    const percent = Math.floor(share * 100);
    // If the output isn't a terminal, print 10 lines of progress instead of 100.
    if (percent < printedPercent + (isTerminal ? 1 : 10)) return;
    printedPercent = percent;
    process.stdout.write(`${isTerminal ? '\r' : ''}filling: ${percent}%${isTerminal ? '' : '\n'}`);
  });
  const seconds = Math.round((performance.now() - start) / 1000);
  process.stdout.write(
    `${isTerminal ? '\r' : ''}${rows.toLocaleString('en-US')} rows in ${seconds} s\n\n`,
  );
}

async function newestRequest({ url }: Server): Promise<string> {
  const headers = { authorization: `Bearer ${clientKey}` };
  const response = await fetch(`${url}/v1/customer/logs?limit=1`, { headers });
  const { logs } = (await response.json()) as { logs: { request_id: string }[] };
  return logs[0]?.request_id ?? '';
}

/** Opens a page several times and returns the times of each visit. */
async function visit(browser: Browser, { url }: Server, view: View): Promise<PageTimes[]> {
  await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
  await tab.signIn(url, view.key);
  await watchPage(tab.page);
  const times: PageTimes[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await tab.page.goto(`${url}/dashboard${view.path}`);
    await tab.page.locator(view.shows).first().waitFor();
    await tab.settled();
    times.push(await readTimes(tab.page));
  }
  if (tab.problems.length > 0) throw new Error(`${view.name}: ${tab.problems.join('; ')}`);
  return times;
}

const median = (numbers: readonly number[]) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

function print(title: string, ...cells: readonly string[]): void {
  process.stdout.write(`${title.padEnd(36)}${cells.map((cell) => cell.padStart(18)).join('')}\n`);
}

async function measure(browser: Browser, server: Server): Promise<void> {
  process.stdout.write(
    `Median and slowest of ${rounds} visits; the slowest must be below the limit.\n\n`,
  );
  print('page', 'responses', 'slowest response', 'then painted', `at most ${msMax} ms`);
  for (const view of viewsOf(await newestRequest(server))) {
    const times = await visit(browser, server, view);
    const responses = times.map(({ slowestResponseMs }) => slowestResponseMs);
    const paints = times.map(({ paintedAfterMs }) => paintedAfterMs);
    const pair = (all: readonly number[]) =>
      `${median(all).toFixed(0)} / ${Math.max(...all).toFixed(0)} ms`;
    const verdict = Math.max(...paints) <= msMax ? 'passed' : 'failed';
    print(view.name, String(times[0]?.responses ?? 0), pair(responses), pair(paints), verdict);
  }
}

const processes = new Processes();
let browser: Browser | undefined;
try {
  const upstream = await processes.upstream(1, 0);
  await fill(processes, upstream);
  const server = await processes.gateway(upstream, name);
  browser = await openBrowser();
  await measure(browser, server);
} finally {
  await browser?.close();
  await processes.stop();
}
process.exit();
