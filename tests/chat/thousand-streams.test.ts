/**
 * A thousand streams at once, every tenth client hanging up in the middle. Upstream, gateway and
 * clients are processes of their own, so that the gateway's memory and its times are its own; all
 * of them read the one clock of this machine.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { isObject } from '../../src/core/json.ts';
import {
  chatAnswer,
  type FakeUpstreamProcess,
  gated,
  hangMidStream,
  type LoggedRequest,
  type RequestTotals,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { disconnectEvery, runLoadClient, type StreamReport } from '../support/load-client.ts';
import { parseSse } from '../support/sse-client.ts';

const streams = 1_000;
const leavers = streams / disconnectEvery;
const answer = words(30);

/**
 * What a process holds is known only once it has been idle: the runtime collects its garbage and
 * gives pages back some ten seconds after the last request.
 */
const idleMs = 12_000;
const idleMaxMs = 25_000;

/**
 * A second is the promise, and `streaming.test.ts` holds us to it; a machine that runs three busy
 * processes takes its own time between them.
 */
const noticedMsMax = 10_000;

let upstream: FakeUpstreamProcess;
let gateway: Gateway;
let memoryBefore = 0;
let memoryAfter = 0;
let reports: readonly StreamReport[] = [];
let summary: RequestTotals;
/** What the upstream wrote down about each client. */
let book: ReadonlyMap<unknown, LoggedRequest> = new Map();

beforeAll(async () => {
  upstream = await startFakeUpstreamProcess();
  gateway = await startGateway({
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': {}, 'test/endless': {} } } },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
  });
  // The first streams compile the code and fill pools and caches, once and for all.
  await load(200);
  await Bun.sleep(idleMs);
  memoryBefore = residentBytes(gateway.process.pid);
  reports = await load(streams);
  summary = await upstream.summary();
  const entries = await upstream.requests();
  book = new Map(entries.map((entry) => [isObject(entry.json) ? entry.json.user : null, entry]));
  const idleSince = performance.now();
  do {
    await Bun.sleep(500);
    memoryAfter = residentBytes(gateway.process.pid);
  } while (memoryAfter > memoryBefore * 1.2 && performance.now() - idleSince < idleMaxMs);
}, 300_000);

afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

/**
 * Ten chunks a second each, held back behind the first word until all of them are open: so they do
 * run all at once. The gateway shows nothing before that word, as another upstream might say it.
 */
async function load(count: number): Promise<readonly StreamReport[]> {
  await upstream.reset();
  const told = gated('all open', 2, chatAnswer(answer, { chunkDelayMs: 100 }));
  await upstream.script('chat', told);
  // Whose clients leave never ends: only hanging up can.
  await upstream.script('endless', hangMidStream(28, told));
  const order = { url: gateway.url, key: gateway.keys.api, streams: count };
  const reported = await runLoadClient(order, () => upstream.open('all open'));
  // The upstream may learn of the last hang-ups a little after the clients have gone.
  await upstream.until((all) => all.every(({ finishedAt }) => finishedAt !== null));
  return reported;
}

function residentBytes(pid: number): number {
  const file = `/proc/${pid}/status`;
  // Only Linux has the file; only a small image of Linux has no `ps`.
  const kilobytes = existsSync(file)
    ? /VmRSS:\s+(\d+)/.exec(readFileSync(file, 'utf8'))?.[1]
    : Bun.spawnSync(['ps', '-o', 'rss=', '-p', String(pid)]).stdout.toString();
  return Number(kilobytes) * 1024;
}

test('all of them are under way at the same time', () => {
  expect(summary).toMatchObject({ requests: streams, openMax: streams });
});

test('every client that stays gets the whole answer and its end', () => {
  const stayed = reports.filter(({ disconnectedAt }) => disconnectedAt === null);
  expect(stayed).toHaveLength(streams - leavers);
  const asStream = new Response(null, { headers: { 'content-type': 'text/event-stream' } });
  for (const { body } of stayed) {
    const { content, dones, finishReasons } = parseSse(body, asStream);
    expect({ content, dones, finishReasons }).toEqual({
      content: answer,
      dones: 1,
      finishReasons: ['stop'],
    });
  }
});

test('the upstream sees every hang-up', () => {
  const left = reports.filter(({ disconnectedAt }) => disconnectedAt !== null);
  expect(left).toHaveLength(leavers);
  const noticed = left.map(({ user, disconnectedAt }) => {
    const { outcome, finishedAt } = book.get(user) ?? {};
    return { user, outcome, ms: (finishedAt ?? Number.NaN) - (disconnectedAt ?? 0) };
  });
  const inTime = ({ outcome, ms }: (typeof noticed)[number]) =>
    outcome === 'client-disconnected' && ms < noticedMsMax;
  expect(noticed.filter((one) => !inTime(one))).toEqual([]);
});

test('nothing stays open behind them', () => {
  expect(summary.byOutcome).toEqual({
    complete: streams - leavers,
    'client-disconnected': leavers,
  });
  expect(summary.open).toBe(0);
  // The runtime keeps some idle connections for the next requests, but not one per stream.
  expect(summary.connectionsOpen).toBeLessThan(streams / 10);
  expect(summary.malformed).toEqual([]);
});

test('each is in the log once, and those that hung up as cancelled', async () => {
  const ids = new Set(reports.map(({ requestId }) => requestId));
  expect(ids.size).toBe(streams);
  const key = gateway.keys.api;
  for (const { requestId, disconnectedAt } of reports) {
    const { body } = await gateway.call('GET', `/v1/generation?id=${requestId}`, { key });
    expect(body.data).toMatchObject({ streamed: true, cancelled: disconnectedAt !== null });
  }
}, 120_000);

test('the memory of the gateway comes back to what it was, within a fifth', () => {
  expect(memoryBefore).toBeGreaterThan(0);
  expect(memoryAfter).toBeLessThanOrEqual(memoryBefore * 1.2);
});
