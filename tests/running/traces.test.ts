/**
 * Traces as a collector on loopback gets them, and what its absence does: nothing. They are sent
 * once a second, so those that wait for one wait at once.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { tracesWaitingMax } from '../../src/core/bounds.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { Telemetry } from '../../src/telemetry/telemetry.ts';
import { TraceExport } from '../../src/telemetry/trace-export.ts';
import { readTraceParent, Tracer } from '../../src/telemetry/tracer.ts';
import { TraceCollector, type ReceivedSpan } from '../support/trace-collector.ts';
import { endedRequest } from '../support/ended-request.ts';
import { scrapeFresh } from '../support/prometheus.ts';
import { chatAnswer, startFakeUpstream, status500, words } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { twoProviders } from '../support/two-providers.ts';

const upstream = startFakeUpstream();
const collector = new TraceCollector();
let gateway: InProcessGateway;
const messages = [{ role: 'user', content: 'canary-of-a-prompt' }];

function start(environment: Record<string, string>): Promise<InProcessGateway> {
  return InProcessGateway.start({ environment, ...twoProviders(upstream) });
}

beforeAll(async () => {
  const usage = { prompt: 10, completion: 4 };
  upstream.script('chat', chatAnswer('canary-of-a-prompt again', { usage }));
  gateway = await start({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-team=red%20team, authorization=Basic abc',
    OTEL_SERVICE_NAME: 'tollgate-in-a-test',
  });
});
afterAll(async () => {
  await gateway.stop();
  await collector.stop();
  upstream.stop();
});

function requestSpan(requestId: string): Promise<ReceivedSpan> {
  const isIt = ({ attributes }: ReceivedSpan) => attributes['tollgate.request_id'] === requestId;
  return collector.until(() => collector.spans.find(isIt));
}

describe('a request', () => {
  test.concurrent('is a server span with the numbers of its answer', async () => {
    const before = BigInt(Date.now()) * 1_000_000n;
    const { requestId } = await gateway.post({ model: 'test/chat', messages });
    const span = await requestSpan(requestId);
    expect(span).toMatchObject({ name: 'chat test/chat', kind: 2, parentSpanId: undefined });
    expect(span.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(span.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(span.statusCode).toBeUndefined();
    expect(span.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'test/chat',
      'gen_ai.response.model': 'test/chat',
      'gen_ai.provider.name': 'first',
      'gen_ai.usage.input_tokens': 10n,
      'gen_ai.usage.output_tokens': 4n,
      'gen_ai.response.finish_reasons': ['stop'],
      'tollgate.tenant': 'default',
      'tollgate.credits': 18n,
    });
    expect(span.startNs >= before && span.endNs >= span.startNs).toBe(true);
    expect(span.endNs <= BigInt(Date.now()) * 1_000_000n).toBe(true);
  });

  test.concurrent('goes where the environment says, with its headers and name', async () => {
    await requestSpan((await gateway.post({ model: 'test/chat', messages })).requestId);
    const [sent] = collector.requests;
    expect(sent?.path).toBe('/v1/traces');
    expect(sent?.headers.get('content-type')).toBe('application/json');
    expect(sent?.headers.get('x-team')).toBe('red team');
    expect(sent?.headers.get('authorization')).toBe('Basic abc');
    const name = { key: 'service.name', value: { stringValue: 'tollgate-in-a-test' } };
    expect(JSON.stringify(sent?.body)).toContain(JSON.stringify(name));
  });

  test.concurrent('has a child for each attempt, in order and inside of it', async () => {
    upstream.script('broken', status500());
    upstream.script('works', chatAnswer(words(5)));
    const { headers } = await gateway.stream({ model: 'test/two', messages });
    const span = await requestSpan(headers.get('x-request-id') ?? '');
    const children = collector.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId);
    expect(children.map(({ kind, traceId }) => [kind, traceId])).toEqual([
      [3, span.traceId],
      [3, span.traceId],
    ]);
    const [failed, answered] = children;
    expect(failed?.attributes).toMatchObject({
      'gen_ai.provider.name': 'first',
      'http.response.status_code': 500n,
      'error.type': 'server',
    });
    expect(failed?.statusCode).toBe(2);
    expect(answered?.attributes).toMatchObject({ 'gen_ai.provider.name': 'second' });
    expect(answered?.attributes['error.type']).toBeUndefined();
    expect((failed?.startNs ?? 0n) >= span.startNs).toBe(true);
    expect((answered?.startNs ?? 0n) >= (failed?.startNs ?? 0n)).toBe(true);
    // A streamed answer lasts until the request ends.
    expect(answered?.endNs).toBe(span.endNs);
  });

  test.concurrent('that was refused is a failed span', async () => {
    const { requestId } = await gateway.post({ model: 'nobody/knows', messages });
    const span = await requestSpan(requestId);
    expect(span.statusCode).toBe(2);
    expect(span.attributes['error.type']).toBe('invalid_request_error');
  });

  test.concurrent('never tells its words or keys', async () => {
    await requestSpan((await gateway.post({ model: 'test/chat', messages })).requestId);
    const told = JSON.stringify(collector.requests.map(({ body }) => body));
    for (const secret of ['canary', 'sk-theirs', gateway.keys.routing]) {
      expect(told).not.toContain(secret);
    }
  });
});

describe("a client's own trace", () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const parentSpanId = '00f067aa0ba902b7';

  test.concurrent('is gone on with, and handed on to the provider', async () => {
    const headers = { traceparent: `00-${traceId}-${parentSpanId}-01` };
    const { requestId } = await gateway.post({ model: 'test/chat', messages }, { headers });
    const span = await requestSpan(requestId);
    expect(span).toMatchObject({ traceId, parentSpanId });
    const attempt = collector.spans.find((one) => one.parentSpanId === span.spanId);
    const sent = upstream.requests.map(({ headers }) => headers.traceparent);
    expect(sent).toContain(`00-${traceId}-${attempt?.spanId}-01`);
  });

  test.concurrent('that is not kept is not kept here either', async () => {
    const headers = { traceparent: `00-${traceId}-${parentSpanId}-00` };
    const { requestId } = await gateway.post({ model: 'test/chat', messages }, { headers });
    const later = await gateway.post({ model: 'test/chat', messages });
    await requestSpan(later.requestId);
    const ids = collector.spans.map(({ attributes }) => attributes['tollgate.request_id']);
    expect(ids).not.toContain(requestId);
  });

  test.each([
    ['nothing', null],
    ['no ids', '00-zz-zz-01'],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${parentSpanId}-01`],
    ['a span of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['more than the first version has', `00-${traceId}-${parentSpanId}-01-more`],
    ['a version that is none', `ff-${traceId}-${parentSpanId}-01`],
    ['capitals', `00-${traceId.toUpperCase()}-${parentSpanId}-01`],
    ['a megabyte', 'a'.repeat(1_000_000)],
  ])('that is %s is none', (_, header) => {
    expect(readTraceParent(header)).toBeUndefined();
  });

  test('of a later version is understood as far as it goes', () => {
    const read = readTraceParent(`01-${traceId}-${parentSpanId}-03-more`);
    expect(read).toEqual({ traceId, spanId: parentSpanId, sampled: true });
  });
});

describe('a collector', () => {
  test('that is away harms nobody: requests go on, traces wait, one line says so', async () => {
    const gone = new TraceCollector();
    await gone.stop();
    const alone = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: gone.url });
    for (let at = 0; at < 5; at += 1) {
      expect((await alone.post({ model: 'test/chat', messages })).status).toBe(200);
    }
    expect((await scrapeFresh(alone.url)).value('tollgate_traces_waiting')).toBe(5);
    await alone.stop();
    const events = alone.logLines.filter((line) => line.includes('"traces_not_exported"'));
    expect(events.length).toBe(1);
  }, 120_000);

  test('on this machine is not looked for behind a proxy of the environment', async () => {
    const near = new TraceCollector();
    const proxy = new TraceCollector();
    const tracing = { url: `${near.url}/v1/traces`, headers: {}, serviceName: 'a' };
    const logs = { keepDays: null, requests: false };
    const telemetry = new Telemetry(
      { logs, tracing },
      createLog(() => {}),
      'b',
      null,
    );
    process.env.HTTP_PROXY = proxy.url;
    try {
      telemetry.requestStarted({
        requestId: endedRequest().requestId,
        receivedAt: 1,
        startedAt: 1,
      });
      telemetry.requestEnded(endedRequest());
      await telemetry.stop();
    } finally {
      delete process.env.HTTP_PROXY;
      await Promise.all([near.stop(), proxy.stop()]);
    }
    expect([near.requests.length, proxy.requests.length]).toEqual([1, 0]);
  });

  const spans = () => {
    const made: Parameters<TraceExport['add']>[0][] = [];
    const tracer = new Tracer((one) => made.push(one));
    const call = { requestId: endedRequest().requestId, receivedAt: 1, startedAt: 1 };
    tracer.requestStarted(call);
    tracer.attemptStarted(call);
    tracer.requestEnded(endedRequest());
    return made[0] ?? [];
  };
  const resource = { serviceName: 'a', version: '1', instanceId: 'b' };
  const quiet = { warn() {}, info() {} };
  const counted = (traces: TraceExport) =>
    traces.families().map(({ samples }) => samples[0]?.value);

  test('that never comes back costs traces past the bound, not memory', async () => {
    const send = () => Promise.reject(new Error('away'));
    const traces = new TraceExport({ resource, send, log: quiet });
    for (let at = 0; at < tracesWaitingMax + 3; at += 1) traces.add(spans());
    expect(counted(traces)).toEqual([tracesWaitingMax, 3]);
    await traces.stop();
  });

  test.concurrent('that is still away at the stop is told of once', async () => {
    const told: string[] = [];
    const tried = Promise.withResolvers<void>();
    const send = async () => {
      tried.resolve();
      throw new Error('away');
    };
    const log = { warn: (event: string) => void told.push(event), info() {} };
    const traces = new TraceExport({ resource, send, log });
    traces.add(spans());
    await tried.promise;
    await traces.stop();
    expect(told).toEqual(['traces_not_exported']);
  });

  test.concurrent('that refuses a batch is not asked again with the same one', async () => {
    const sent: string[] = [];
    const send = async (body: string) => sent.push(body) && 400;
    const traces = new TraceExport({ resource, send, log: quiet });
    traces.add(spans());
    await traces.stop();
    expect(sent.length).toBe(1);
    expect(counted(traces)).toEqual([0, 1]);
  });

  test.concurrent('that is busy gets the same spans later', async () => {
    const answers = [503, 200];
    const sent: string[] = [];
    const taken = Promise.withResolvers<void>();
    const send = async (body: string) => {
      sent.push(body);
      if (sent.length === 2) taken.resolve();
      return answers.shift() ?? 500;
    };
    const traces = new TraceExport({ resource, send, log: quiet });
    traces.add(spans());
    await taken.promise;
    await traces.stop();
    expect(sent[1]).toBe(sent[0] ?? '');
    expect(counted(traces)).toEqual([0, 0]);
  }, 120_000);
});
