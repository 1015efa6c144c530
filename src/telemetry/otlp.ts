/** Spans as OTLP/HTTP wants them in JSON: ids in hexadecimal, nanoseconds and integers as text. */

type AttributeValue = string | number | boolean | readonly string[] | null;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: 'server' | 'client';
  /** Epoch milliseconds, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  /** `null` is left out. */
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly failed: boolean;
}

export interface Resource {
  readonly serviceName: string;
  readonly version: string;
  readonly instanceId: string;
}

const kinds = { server: 2, client: 3 } as const;
const statusUnset = {};
const statusError = { code: 2 };

export function writeSpans(spans: readonly Span[], resource: Resource): string {
  const { serviceName, version, instanceId } = resource;
  const attributes = {
    'service.name': serviceName,
    'service.version': version,
    'service.instance.id': instanceId,
  };
  const scopeSpans = [{ scope: { name: 'tollgate', version }, spans: spans.map(spanObject) }];
  return JSON.stringify({
    resourceSpans: [{ resource: { attributes: attributeList(attributes) }, scopeSpans }],
  });
}

function spanObject({ kind, startMs, endMs, attributes, failed, ...rest }: Span) {
  return {
    ...rest,
    kind: kinds[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(Math.max(startMs, endMs)),
    attributes: attributeList(attributes),
    status: failed ? statusError : statusUnset,
  };
}

function attributeList(attributes: Span['attributes']) {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === null ? [] : [{ key, value: valueObject(value) }],
  );
}

function valueObject(value: Exclude<AttributeValue, null>): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value !== 'number') {
    return { arrayValue: { values: value.map((stringValue) => ({ stringValue })) } };
  }
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** A double holds epoch milliseconds with microseconds behind, not nanoseconds. */
function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}
