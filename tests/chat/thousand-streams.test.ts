/**
 * Runs 1,000 streams at once, with every 10th client disconnecting in the middle. The upstream, the
 * gateway, and the clients are separate processes, so that only the gateway is measured. Their
 * timestamps are comparable because they share the machine's clock.
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
const disconnects = streams / disconnectEvery;
const answer = words(30);

/**
 * Memory is measured after an idle period, because Bun collects garbage and returns pages to the
 * system about 10 seconds after the last request.
 */
const idleMs = 12_000;
const idleMaxMs = 25_000;

/**
 * More than the 1 second that `streaming.test.ts` checks, because 3 busy processes share the
 * machine here.
 */
const noticedMsMax = 10_000;

let upstream: FakeUpstreamProcess;
let gateway: Gateway;
let memoryBefore = 0;
let memoryAfter = 0;
let reports: readonly StreamReport[] = [];
let summary: RequestTotals;
/** The requests that the upstream logged, by `user`. */
let requestsByUser: ReadonlyMap<unknown, LoggedRequest> = new Map();

beforeAll(async () => {
  upstream = await startFakeUpstreamProcess();
  gateway = await startGateway({
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': {}, 'test/endless': {} } } },
    config: {
      limits: {
        requests_per_minute: 1_000_000,
        reads_per_minute: 1_000_000,
        concurrent_requests: 10_000,
      },
    },
  });
  // The first streams compile code and fill pools and caches. This memory isn't a leak.
  await load(200);
  await Bun.sleep(idleMs);
  memoryBefore = residentBytes(gateway.process.pid);
  reports = await load(streams);
  summary = await upstream.summary();
  const entries = await upstream.requests();
  requestsByUser = new Map(
    entries.map((entry) => [isObject(entry.json) ? entry.json.user : null, entry]),
  );
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
 * Runs streams of 10 chunks per second. The upstream pauses each stream at its first word until all
 * streams are open, so that they run concurrently. The gateway sends nothing before that word,
 * because it could still switch to another upstream.
 */
async function load(count: number): Promise<readonly StreamReport[]> {
  await upstream.reset();
  const behavior = gated('all open', 2, chatAnswer(answer, { chunkDelayMs: 100 }));
  await upstream.script('chat', behavior);
  // Streams whose clients disconnect never end by themselves.
  await upstream.script('endless', hangMidStream(28, behavior));
  const options = { url: gateway.url, key: gateway.keys.api, streams: count };
  const reported = await runLoadClient(options, () => upstream.open('all open'));
  // The upstream may notice the last disconnects slightly later than the clients.
  await upstream.until((all) => all.every(({ finishedAt }) => finishedAt !== null));
  return reported;
}

function residentBytes(pid: number): number {
  const file = `/proc/${pid}/status`;
  // Only Linux has /proc, and small Linux images have no `ps`.
  const kilobytes = existsSync(file)
    ? /VmRSS:\s+(\d+)/.exec(readFileSync(file, 'utf8'))?.[1]
    : Bun.spawnSync(['ps', '-o', 'rss=', '-p', String(pid)]).stdout.toString();
  return Number(kilobytes) * 1024;
}

test('keeps 1,000 streams open at the same time', () => {
  expect(summary).toMatchObject({ requests: streams, openMax: streams });
});

test('sends the complete answer and one [DONE] to every client that stays connected', () => {
  const connected = reports.filter(({ disconnectedAt }) => disconnectedAt === null);
  expect(connected).toHaveLength(streams - disconnects);
  const asStream = new Response(null, { headers: { 'content-type': 'text/event-stream' } });
  for (const { body } of connected) {
    const { content, doneCount, finishReasons } = parseSse(body, asStream);
    expect({ content, doneCount, finishReasons }).toEqual({
      content: answer,
      doneCount: 1,
      finishReasons: ['stop'],
    });
  }
});

test('aborts the upstream call of every client that disconnects', () => {
  const disconnected = reports.filter(({ disconnectedAt }) => disconnectedAt !== null);
  expect(disconnected).toHaveLength(disconnects);
  const noticed = disconnected.map(({ user, disconnectedAt }) => {
    const { outcome, finishedAt } = requestsByUser.get(user) ?? {};
    return { user, outcome, ms: (finishedAt ?? Number.NaN) - (disconnectedAt ?? 0) };
  });
  const inTime = ({ outcome, ms }: (typeof noticed)[number]) =>
    outcome === 'client-disconnected' && ms < noticedMsMax;
  expect(noticed.filter((one) => !inTime(one))).toEqual([]);
});

test('leaves no upstream stream and only a few connections open afterwards', () => {
  expect(summary.byOutcome).toEqual({
    complete: streams - disconnects,
    'client-disconnected': disconnects,
  });
  expect(summary.open).toBe(0);
  // Bun keeps some idle connections for later requests, but not one per stream.
  expect(summary.connectionsOpen).toBeLessThan(streams / 10);
  expect(summary.malformed).toEqual([]);
});

test('logs every stream once, and the streams of disconnected clients as canceled', async () => {
  const ids = new Set(reports.map(({ requestId }) => requestId));
  expect(ids.size).toBe(streams);
  const key = gateway.keys.api;
  for (const { requestId, disconnectedAt } of reports) {
    const { body } = await gateway.call('GET', `/v1/generation?id=${requestId}`, { key });
    expect(body.data).toMatchObject({ streamed: true, cancelled: disconnectedAt !== null });
  }
}, 120_000);

test('returns to within 20% of its memory before the load', () => {
  expect(memoryBefore).toBeGreaterThan(0);
  expect(memoryAfter).toBeLessThanOrEqual(memoryBefore * 1.2);
});
