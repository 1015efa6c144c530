/**
 * Traces that a collector on loopback receives. They are exported once per second, so tests that
 * wait for an export are concurrent.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { tracesWaitingMax } from '../../src/core/bounds.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { Telemetry } from '../../src/telemetry/telemetry.ts';
import { TraceExport } from '../../src/telemetry/trace-export.ts';
import { readTraceParent, Tracer } from '../../src/telemetry/tracer.ts';
import { endedRequest } from '../support/ended-request.ts';
import { chatAnswer, startFakeUpstream, status500, words } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { scrapeFresh } from '../support/prometheus.ts';
import { type ReceivedSpan, TraceCollector } from '../support/trace-collector.ts';
import { twoProviders } from '../support/two-providers.ts';
import { within } from '../support/wait-until.ts';

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
  return collector.until(() =>
    collector.spans.find(({ attributes }) => attributes['tollgate.request_id'] === requestId),
  );
}

describe('the trace of a request', () => {
  test.concurrent('has a server span with the metrics of its answer', async () => {
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

  test.concurrent('is sent to the configured endpoint with its headers and service', async () => {
    await requestSpan((await gateway.post({ model: 'test/chat', messages })).requestId);
    const [sent] = collector.requests;
    expect(sent?.path).toBe('/v1/traces');
    expect(sent?.headers.get('content-type')).toBe('application/json');
    expect(sent?.headers.get('x-team')).toBe('red team');
    expect(sent?.headers.get('authorization')).toBe('Basic abc');
    const name = { key: 'service.name', value: { stringValue: 'tollgate-in-a-test' } };
    expect(JSON.stringify(sent?.body)).toContain(JSON.stringify(name));
  });

  test.concurrent('has a child span for each attempt, in order', async () => {
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
    // The span of a streamed answer ends with the request.
    expect(answered?.endNs).toBe(span.endNs);
  });

  test.concurrent('has a failed span if the request is rejected', async () => {
    const { requestId } = await gateway.post({ model: 'unknown/model', messages });
    const span = await requestSpan(requestId);
    expect(span.statusCode).toBe(2);
    expect(span.attributes['error.type']).toBe('invalid_request_error');
  });

  test.concurrent('contains no prompts, answers, or keys', async () => {
    await requestSpan((await gateway.post({ model: 'test/chat', messages })).requestId);
    const exported = JSON.stringify(collector.requests.map(({ body }) => body));
    for (const secret of ['canary', 'sk-theirs', gateway.keys.routing]) {
      expect(exported).not.toContain(secret);
    }
  });
});

describe('the traceparent header', () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const parentSpanId = '00f067aa0ba902b7';

  test.concurrent("continues the client's trace and is sent to the provider", async () => {
    const headers = { traceparent: `00-${traceId}-${parentSpanId}-01` };
    const { requestId } = await gateway.post({ model: 'test/chat', messages }, { headers });
    const span = await requestSpan(requestId);
    expect(span).toMatchObject({ traceId, parentSpanId });
    const attempt = collector.spans.find((one) => one.parentSpanId === span.spanId);
    const sent = upstream.requests.map(({ headers }) => headers.traceparent);
    expect(sent).toContain(`00-${traceId}-${attempt?.spanId}-01`);
  });

  test.concurrent('of a trace that is not sampled exports no span', async () => {
    const headers = { traceparent: `00-${traceId}-${parentSpanId}-00` };
    const { requestId } = await gateway.post({ model: 'test/chat', messages }, { headers });
    const later = await gateway.post({ model: 'test/chat', messages });
    await requestSpan(later.requestId);
    const ids = collector.spans.map(({ attributes }) => attributes['tollgate.request_id']);
    expect(ids).not.toContain(requestId);
  });

  test.each([
    ['it is missing', null],
    ['its IDs are not hexadecimal', '00-zz-zz-01'],
    ['its trace ID is zero', `00-${'0'.repeat(32)}-${parentSpanId}-01`],
    ['its span ID is zero', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['version 00 has more fields', `00-${traceId}-${parentSpanId}-01-more`],
    ['its version is ff', `ff-${traceId}-${parentSpanId}-01`],
    ['it has capital letters', `00-${traceId.toUpperCase()}-${parentSpanId}-01`],
    ['it has a million characters', 'a'.repeat(1_000_000)],
  ])('is ignored if %s', (_, header) => {
    expect(readTraceParent(header)).toBeUndefined();
  });

  test('of a later version is read up to its known fields', () => {
    const read = readTraceParent(`01-${traceId}-${parentSpanId}-03-more`);
    expect(read).toEqual({ traceId, spanId: parentSpanId, sampled: true });
  });
});

describe('trace export', () => {
  test('queues traces and logs once while the collector is unreachable', async () => {
    const stopped = new TraceCollector();
    await stopped.stop();
    const other = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: stopped.url });
    for (let sent = 0; sent < 5; sent += 1) {
      expect((await other.post({ model: 'test/chat', messages })).status).toBe(200);
    }
    expect((await scrapeFresh(other.url)).value('tollgate_traces_waiting')).toBe(5);
    await other.stop();
    const events = other.logLines.filter((line) => line.includes('"trace_export_failed"'));
    expect(events.length).toBe(1);
  }, 120_000);

  test('does not use a proxy for a collector on the same machine', async () => {
    const local = new TraceCollector();
    const proxy = new TraceCollector();
    const tracing = { url: `${local.url}/v1/traces`, headers: {}, serviceName: 'a' };
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
      await Promise.all([local.stop(), proxy.stop()]);
    }
    expect([local.requests.length, proxy.requests.length]).toEqual([1, 0]);
  });

  const spans = () => {
    const traces: Parameters<TraceExport['add']>[0][] = [];
    const tracer = new Tracer((trace) => traces.push(trace));
    const call = { requestId: endedRequest().requestId, receivedAt: 1, startedAt: 1 };
    tracer.requestStarted(call);
    tracer.attemptStarted(call);
    tracer.requestEnded(endedRequest());
    return traces[0] ?? [];
  };
  const resource = { serviceName: 'a', version: '1', instanceId: 'b' };
  const noLog = { warn() {}, info() {} };
  const counted = (traces: TraceExport) =>
    traces.families().map(({ samples }) => samples[0]?.value);

  test('drops traces that exceed the queue limit', async () => {
    const send = () => Promise.reject(new Error('away'));
    const traces = new TraceExport({ resource, send, log: noLog });
    for (let added = 0; added < tracesWaitingMax + 3; added += 1) traces.add(spans());
    expect(counted(traces)).toEqual([tracesWaitingMax, 3]);
    await traces.stop();
  });

  test.concurrent('logs once if the collector is still unreachable at shutdown', async () => {
    const events: string[] = [];
    const tried = Promise.withResolvers<void>();
    const send = async () => {
      tried.resolve();
      throw new Error('away');
    };
    const log = { warn: (event: string) => void events.push(event), info() {} };
    const traces = new TraceExport({ resource, send, log });
    traces.add(spans());
    await within(tried.promise, 'the first export');
    await traces.stop();
    expect(events).toEqual(['trace_export_failed']);
  });

  test.concurrent('does not resend a batch that the collector rejected', async () => {
    const sent: string[] = [];
    const send = async (body: string) => sent.push(body) && 400;
    const traces = new TraceExport({ resource, send, log: noLog });
    traces.add(spans());
    await traces.stop();
    expect(sent.length).toBe(1);
    expect(counted(traces)).toEqual([0, 1]);
  });

  test.concurrent('resends the same spans after 503', async () => {
    const answers = [503, 200];
    const sent: string[] = [];
    const resent = Promise.withResolvers<void>();
    const send = async (body: string) => {
      sent.push(body);
      if (sent.length === 2) resent.resolve();
      return answers.shift() ?? 500;
    };
    const traces = new TraceExport({ resource, send, log: noLog });
    traces.add(spans());
    await within(resent.promise, 'the second export');
    await traces.stop();
    expect(sent[1]).toBe(sent[0] ?? '');
    expect(counted(traces)).toEqual([0, 0]);
  }, 120_000);
});
