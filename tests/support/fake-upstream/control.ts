/**
 * The fake's control paths, for tests that run it in another process. GET /__requests returns the
 * totals. `?full=1` returns all entries, and `&after=<version>&waitMs=<n>` waits for a newer
 * version. POST /__script, /__open, and /__reset call the methods with these names.
 */

import { json } from './answers.ts';
import { type Behavior, isBehavior } from './behavior.ts';
import type { LoggedRequest } from './logged-request.ts';
import { field, listOf, readJson } from './parsed-request.ts';
import type { RequestLog } from './request-log.ts';
import type { FakeUpstream } from './server.ts';

/** The maximum time that a request waits for a change. */
const longPollMs = 10_000;

/** Changes come in bursts. A short wait allows one response for all changes of a burst. */
const gatherMs = 20;

export interface WireLog {
  readonly version: number;
  readonly entries: readonly WireEntry[];
}

/** An entry as JSON, with its bytes in base64. */
type WireEntry = Omit<LoggedRequest, 'raw' | 'form'> & {
  readonly raw: string;
  readonly form?: {
    readonly fields: Readonly<Record<string, readonly string[]>>;
    readonly files: readonly WireFile[];
  };
};

interface WireFile {
  readonly field: string;
  readonly name: string;
  readonly type: string;
  readonly bytes: string;
}

export async function control(
  upstream: FakeUpstream,
  log: RequestLog,
  path: string,
  body: Uint8Array,
): Promise<Behavior> {
  const url = new URL(path, upstream.url);
  const parameters = readJson(body);
  switch (url.pathname) {
    case '/__requests':
      return url.searchParams.has('full')
        ? json(200, await fullLog(log, url.searchParams))
        : json(200, upstream.summary());
    case '/__script': {
      const key = field(parameters, 'key');
      const behaviors = listOf(field(parameters, 'behaviors')).filter(isBehavior);
      if (typeof key !== 'string' || behaviors.length === 0) return json(400, 'Not a script.');
      upstream.script(key, behaviors);
      return json(200, 'scripted');
    }
    case '/__open': {
      const gate = field(parameters, 'gate');
      if (typeof gate !== 'string') return json(400, 'Not a gate.');
      upstream.open(gate);
      return json(200, 'open');
    }
    case '/__reset':
      upstream.reset();
      return json(200, 'reset');
    default:
      return json(404, 'Unknown control path.');
  }
}

async function fullLog(log: RequestLog, query: URLSearchParams): Promise<WireLog> {
  const after = query.get('after');
  const waitMs = Math.min(Number(query.get('waitMs') ?? 0), longPollMs);
  if (after !== null) {
    await log.newerThan(Number(after), waitMs);
    await Bun.sleep(gatherMs);
  }
  return { version: log.version, entries: log.entries.map(toWire) };
}

function toWire(entry: LoggedRequest): WireEntry {
  const { raw, form, ...rest } = entry;
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const files = (form?.files ?? []).map((file) => ({ ...file, bytes: base64(file.bytes) }));
  const packed = { ...rest, raw: base64(raw) };
  return form === undefined ? packed : { ...packed, form: { fields: form.fields, files } };
}

export function fromWire(entry: WireEntry): LoggedRequest {
  const { raw, form, ...rest } = entry;
  const unpack = (base64: string) => new Uint8Array(Buffer.from(base64, 'base64'));
  const files = (form?.files ?? []).map((file) => ({ ...file, bytes: unpack(file.bytes) }));
  const unpacked = form === undefined ? undefined : { fields: form.fields, files };
  return { ...rest, raw: unpack(raw), form: unpacked };
}
