// Parses event streams. Accepts only the syntax that the gateway writes.

export type Fields = Readonly<Record<string, unknown>>;

export interface Frame {
  readonly event: string | null;
  readonly data: string;
}

export function check(isTrue: boolean, problem: string): asserts isTrue {
  if (!isTrue) throw new Error(`Invalid stream: ${problem}`);
}

/** Splits a stream into events. Skips comments. */
export function framesOf(text: string): Frame[] {
  if (text === '') return [];
  check(text.endsWith('\n\n'), `the stream ends inside an event: ${text.slice(-80)}`);
  const blocks = text.slice(0, -2).split('\n\n');
  return blocks.flatMap((block) => {
    if (/^:[^\n]*$/.test(block)) return [];
    const match = /^(?:event: ([^\n]+)\n)?data: ([^\n]+)$/.exec(block);
    check(match !== null, `malformed event: ${block.slice(0, 200)}`);
    return [{ event: match[1] ?? null, data: match[2] ?? '' }];
  });
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function fieldsOf(value: unknown, label: string): Fields {
  check(isFields(value), `${label} is not an object`);
  return value;
}

export function parseData(data: string): Fields {
  return fieldsOf(JSON.parse(data), `the data ${data.slice(0, 80)}`);
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Reads a stream where each event's name equals the `type` of its data. */
export function readNamedEvents(text: string, take: (fields: Fields) => void): void {
  for (const { event, data } of framesOf(text)) {
    const fields = parseData(data);
    check(event === fields.type, `the event ${event} contains a ${String(fields.type)}`);
    take(fields);
  }
}
