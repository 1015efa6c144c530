/** One line of the operator's log for each request, and nothing in it that is nobody's business. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { requestLinesMax } from '../../src/core/bounds.ts';
import { isObject } from '../../src/core/json.ts';
import { RequestLog } from '../../src/telemetry/request-log.ts';
import { endedRequest } from '../support/ended-request.ts';
import {
  withoutUsage,
  chatAnswer,
  startFakeUpstream,
  status500,
} from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { twoProviders } from '../support/two-providers.ts';

const upstream = startFakeUpstream();
const marker = 'canary-of-a-prompt';
const messages = [{ role: 'user', content: marker }];
let gateway: InProcessGateway;

async function start(logs: object): Promise<InProcessGateway> {
  return InProcessGateway.start({ logs, ...twoProviders(upstream) });
}

beforeAll(async () => {
  gateway = await start({});
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

function linesOf({ logLines }: InProcessGateway): Record<string, unknown>[] {
  const lines = logLines.join('').split('\n');
  // Whatever a client writes, each line is one whole object and the last one is ended.
  expect(lines.pop()).toBe('');
  return lines.map((line): unknown => JSON.parse(line)).filter(isObject);
}

function documentedFields(): string[] {
  const page = readFileSync(join(import.meta.dir, '../../docs/observability.md'), 'utf8');
  const [, section = ''] = page.split(/^## /m);
  return [...section.matchAll(/^\| `(\w+)` +\|/gm)].map(([, name = '']) => name);
}

/** Lines come in batches, a moment later. */
async function lineOf(requestId: string): Promise<Record<string, unknown>> {
  for (;;) {
    const lines = linesOf(gateway).filter((line) => line.request_id === requestId);
    if (lines[0]) {
      expect(lines.length).toBe(1);
      return lines[0];
    }
    await Bun.sleep(10);
  }
}

describe('a request', () => {
  test('leaves one line with its numbers', async () => {
    upstream.script('chat', chatAnswer('a b c d', { usage: { prompt: 10, completion: 4 } }));
    const { requestId } = await gateway.post({ model: 'test/chat', messages });
    const line = await lineOf(requestId);
    const { keyId } = await gateway.record(requestId);
    expect(line).toMatchObject({
      level: 'info',
      event: 'request',
      tenant: 'default',
      key: keyId,
      operation: 'chat',
      requested_model: 'test/chat',
      model: 'test/chat',
      provider: 'first',
      status: 'success',
      error: null,
      traffic_mode: 'shared',
      cache: 'MISS',
      streamed: false,
      cancelled: false,
      attempts: 1,
      input_tokens: 10,
      output_tokens: 4,
      usage_estimated: false,
      credits: 18,
    });
    expect(Object.keys(line)).toEqual(documentedFields());
    expect(Date.parse(String(line.time))).toBeGreaterThan(Date.now() - 60_000);
    expect(Number.isInteger(line.duration_ms) && Number.isInteger(line.first_byte_ms)).toBe(true);
  });

  test('that went elsewhere says how many attempts it took', async () => {
    upstream.script('broken', status500());
    upstream.script('works', withoutUsage(chatAnswer('hi')));
    const { requestId } = await gateway.post({ model: 'test/two', messages });
    const line = await lineOf(requestId);
    expect(line).toMatchObject({ provider: 'second', attempts: 2, usage_estimated: true });
  });

  test('that failed says why, and what it cost: nothing', async () => {
    upstream.script('chat', status500());
    const { requestId } = await gateway.post({ model: 'test/chat', messages });
    const line = await lineOf(requestId);
    const failed = { status: 'error', error: 'upstream_error', provider: null, credits: 0 };
    expect(line).toMatchObject(failed);
  });

  test('with hostile names stays one line', async () => {
    const model = '"},\n{"event":"forged"}\u2028\u0000\ud800\u001b[31m\u009b31m\u202e\u2066';
    const { requestId } = await gateway.post({ model, messages });
    expect((await lineOf(requestId)).error).toBe('invalid_request_error');
    expect(gateway.logLines.join('')).not.toMatch(/[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/);
    expect(linesOf(gateway).filter(({ event }) => event === 'forged')).toEqual([]);
  });

  test('never leaves its words, its keys or its user', async () => {
    upstream.script('chat', chatAnswer(`${marker} in the answer`));
    const { requestId } = await gateway.post({ model: 'test/chat', messages, user: marker });
    await lineOf(requestId);
    const all = gateway.logLines.join('');
    for (const secret of [marker, gateway.keys.routing, 'sk-theirs', '"Bearer']) {
      expect(all).not.toContain(secret);
    }
  });
});

test('logs.requests: false leaves no line', async () => {
  const silent = await start({ requests: false });
  upstream.script('chat', chatAnswer('hi'));
  await silent.post({ model: 'test/chat', messages });
  await silent.stop();
  expect(silent.logLines).toEqual([]);
});

test('a stop writes the lines that were still waiting', async () => {
  const own = startFakeUpstream();
  const models = { 'test/chat': {} };
  const running = await startGateway({ upstreams: { fake: { url: own.url, models } } });
  const { headers } = await running.chat({ model: 'test/chat', messages });
  await running.stop();
  const ids = running.log().map(({ request_id }) => request_id);
  expect(ids).toContain(headers.get('x-request-id') ?? 'none');
  own.stop();
}, 120_000);

describe('a reader that does not read', () => {
  test('costs lines, is told how many, and holds up nobody', async () => {
    const written: string[] = [];
    const stuck = Promise.withResolvers<void>();
    const lines = new RequestLog((text) => {
      written.push(text);
      return stuck.promise;
    });
    lines.ended(endedRequest());
    const first = lines.flush();
    for (let at = 0; at < requestLinesMax + 7; at += 1) lines.ended(endedRequest());
    expect(written.length).toBe(1);
    stuck.resolve();
    await first;
    const all = written.join('').trimEnd().split('\n');
    expect(all.length).toBe(1 + requestLinesMax + 1);
    expect(JSON.parse(all.at(-1) ?? '')).toMatchObject({
      level: 'warn',
      event: 'request_lines_dropped',
      lines: 7,
    });
    expect(lines.families()[0]?.samples).toEqual([{ value: 7 }]);
  });

  test('that is gone for good costs its lines only', async () => {
    const lines = new RequestLog(() => Promise.reject(new Error('broken pipe')));
    lines.ended(endedRequest());
    await lines.flush();
    expect(lines.families()[0]?.samples).toEqual([{ value: 1 }]);
  });
});
