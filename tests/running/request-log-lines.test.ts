/** The operator's log has one line per request, without prompts, answers, or keys. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { requestLinesMax } from '../../src/core/bounds.ts';
import { isObject } from '../../src/core/json.ts';
import { RequestLog } from '../../src/telemetry/request-log.ts';
import { endedRequest } from '../support/ended-request.ts';
import {
  chatAnswer,
  startFakeUpstream,
  status500,
  withoutUsage,
} from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { twoProviders } from '../support/two-providers.ts';
import { waitUntil } from '../support/wait-until.ts';

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
  // Each line is a complete JSON object that ends with a line break, whatever clients send.
  expect(lines.pop()).toBe('');
  return lines.map((line): unknown => JSON.parse(line)).filter(isObject);
}

function documentedFields(): string[] {
  const page = readFileSync(join(import.meta.dir, '../../docs/observability.md'), 'utf8');
  const [, section = ''] = page.split(/^## /m);
  return [...section.matchAll(/^\| `(\w+)` +\|/gm)].map(([, name = '']) => name);
}

/** Waits for the line of a request, because lines are written in batches. */
async function lineOf(requestId: string): Promise<Record<string, unknown>> {
  const linesOfRequest = () => linesOf(gateway).filter((line) => line.request_id === requestId);
  const line = await waitUntil(() => linesOfRequest()[0]);
  expect(linesOfRequest().length).toBe(1);
  return line;
}

describe('the log line of a request', () => {
  test('has the documented fields', async () => {
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

  test('counts attempts after a fallback', async () => {
    upstream.script('broken', status500());
    upstream.script('works', withoutUsage(chatAnswer('hi')));
    const { requestId } = await gateway.post({ model: 'test/two', messages });
    const line = await lineOf(requestId);
    expect(line).toMatchObject({ provider: 'second', attempts: 2, usage_estimated: true });
  });

  test('has the error and no credits for a failed request', async () => {
    upstream.script('chat', status500());
    const { requestId } = await gateway.post({ model: 'test/chat', messages });
    const line = await lineOf(requestId);
    const failed = { status: 'error', error: 'upstream_error', provider: null, credits: 0 };
    expect(line).toMatchObject(failed);
  });

  test('stays one line for a model name with control characters', async () => {
    const model = '"},\n{"event":"forged"}\u2028\u0000\ud800\u001b[31m\u009b31m\u202e\u2066';
    const { requestId } = await gateway.post({ model, messages });
    expect((await lineOf(requestId)).error).toBe('invalid_request_error');
    expect(gateway.logLines.join('')).not.toMatch(/[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/);
    expect(linesOf(gateway).filter(({ event }) => event === 'forged')).toEqual([]);
  });

  test('contains no prompt, answer, key, or user', async () => {
    upstream.script('chat', chatAnswer(`${marker} in the answer`));
    const { requestId } = await gateway.post({ model: 'test/chat', messages, user: marker });
    await lineOf(requestId);
    const all = gateway.logLines.join('');
    for (const secret of [marker, gateway.keys.routing, 'sk-theirs', '"Bearer']) {
      expect(all).not.toContain(secret);
    }
  });
});

test('logs.requests: false turns request lines off', async () => {
  const silent = await start({ requests: false });
  upstream.script('chat', chatAnswer('hi'));
  await silent.post({ model: 'test/chat', messages });
  await silent.stop();
  expect(silent.logLines).toEqual([]);
});

test('a stop writes pending request lines', async () => {
  const own = startFakeUpstream();
  const models = { 'test/chat': {} };
  const running = await startGateway({ upstreams: { fake: { url: own.url, models } } });
  const { headers } = await running.chat({ model: 'test/chat', messages });
  await running.stop();
  const ids = running.log().map(({ request_id }) => request_id);
  expect(ids).toContain(headers.get('x-request-id') ?? 'none');
  own.stop();
}, 120_000);

describe('RequestLog with a blocked output', () => {
  test('drops lines beyond its limit and logs how many', async () => {
    const written: string[] = [];
    const blocked = Promise.withResolvers<void>();
    const lines = new RequestLog((text) => {
      written.push(text);
      return blocked.promise;
    });
    lines.ended(endedRequest());
    const first = lines.flush();
    for (let index = 0; index < requestLinesMax + 7; index += 1) lines.ended(endedRequest());
    expect(written.length).toBe(1);
    blocked.resolve();
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

  test('drops lines that cannot be written', async () => {
    const lines = new RequestLog(() => Promise.reject(new Error('broken pipe')));
    lines.ended(endedRequest());
    await lines.flush();
    expect(lines.families()[0]?.samples).toEqual([{ value: 1 }]);
  });
});
