import { isObject } from '../../src/core/json.ts';
import { within } from './wait-until.ts';

/**
 * A trace collector on loopback that records requests and responds with a status set by the test.
 */
export class TraceCollector {
  readonly requests: {
    readonly path: string;
    readonly headers: Headers;
    readonly body: unknown;
  }[] = [];
  status = 200;
  readonly #server: Bun.Server<undefined>;
  #arrived = Promise.withResolvers<void>();

  constructor(port = 0) {
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port,
      fetch: async (request) => {
        const body: unknown = await request.json();
        this.requests.push({ path: new URL(request.url).pathname, headers: request.headers, body });
        this.#arrived.resolve();
        this.#arrived = Promise.withResolvers();
        return Response.json({ partialSuccess: {} }, { status: this.status });
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** All received spans in the order in which they arrived. */
  get spans(): ReceivedSpan[] {
    return this.requests.flatMap(({ body }) =>
      list(body, 'resourceSpans').flatMap((resource) =>
        list(resource, 'scopeSpans').flatMap((scope) => list(scope, 'spans').map(readSpan)),
      ),
    );
  }

  /** Waits until `look` returns a value. */
  async until<Found>(look: () => Found | undefined): Promise<Found> {
    for (;;) {
      const { promise } = this.#arrived;
      const found = look();
      if (found !== undefined) return found;
      await within(promise, `more spans for ${look}; ${this.spans.length} have arrived`);
    }
  }

  async stop(): Promise<void> {
    await this.#server.stop(true);
  }
}

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: unknown;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly statusCode: unknown;
  readonly attributes: Readonly<Record<string, unknown>>;
}

function list(value: unknown, name: string): Record<string, unknown>[] {
  const found = isObject(value) ? value[name] : undefined;
  return Array.isArray(found) ? found.filter(isObject) : [];
}

function readSpan(span: Record<string, unknown>): ReceivedSpan {
  const { parentSpanId, status } = span;
  return {
    traceId: String(span.traceId),
    spanId: String(span.spanId),
    parentSpanId: parentSpanId === undefined ? undefined : String(parentSpanId),
    name: String(span.name),
    kind: span.kind,
    startNs: BigInt(String(span.startTimeUnixNano)),
    endNs: BigInt(String(span.endTimeUnixNano)),
    statusCode: isObject(status) ? status.code : 'missing',
    attributes: Object.fromEntries(
      list(span, 'attributes').map(({ key, value }) => [String(key), plainValue(value)]),
    ),
  };
}

/** Converts integers, which are strings in OTLP's JSON, to bigints. */
function plainValue(value: unknown): unknown {
  if (!isObject(value)) return undefined;
  if (typeof value.intValue === 'string') return BigInt(value.intValue);
  if (isObject(value.arrayValue)) return list(value.arrayValue, 'values').map(plainValue);
  return value.stringValue ?? value.boolValue ?? value.doubleValue;
}
