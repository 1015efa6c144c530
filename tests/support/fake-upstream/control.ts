/**
 * The fake's own paths, for tests that run it as another process. GET /__book gives the totals,
 * with `?full=1` every entry, with `&after=<version>&waitMs=<n>` once there is a newer state.
 * POST /__script, /__open and /__reset do what the calls of these names do.
 */

import { json } from './answers.ts';
import { type Behavior, isBehavior } from './behavior.ts';
import type { LoggedRequest } from './logged-request.ts';
import { field, listOf, readJson } from './parsed-request.ts';
import type { RequestLog } from './request-log.ts';
import type { FakeUpstream } from './server.ts';

/** How long a reader in another process waits for a change before it has to ask again. */
const longPollMs = 10_000;

/** Changes come in bursts: one reply for each burst keeps the number of replies small. */
const gatherMs = 20;

export interface WireBook {
  readonly version: number;
  readonly entries: readonly WireEntry[];
}

/** An entry as JSON: its bytes in base64. */
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
  book: RequestLog,
  path: string,
  body: Uint8Array,
): Promise<Behavior> {
  const url = new URL(path, upstream.url);
  const asked = readJson(body);
  switch (url.pathname) {
    case '/__book':
      return url.searchParams.has('full')
        ? json(200, await fullBook(book, url.searchParams))
        : json(200, upstream.summary());
    case '/__script': {
      const key = field(asked, 'key');
      const behaviors = listOf(field(asked, 'behaviors')).filter(isBehavior);
      if (typeof key !== 'string' || behaviors.length === 0) return json(400, 'no script');
      upstream.script(key, behaviors);
      return json(200, 'scripted');
    }
    case '/__open': {
      const gate = field(asked, 'gate');
      if (typeof gate !== 'string') return json(400, 'no gate');
      upstream.open(gate);
      return json(200, 'open');
    }
    case '/__reset':
      upstream.reset();
      return json(200, 'reset');
    default:
      return json(404, 'no such control');
  }
}

async function fullBook(book: RequestLog, query: URLSearchParams): Promise<WireBook> {
  const after = query.get('after');
  const waitMs = Math.min(Number(query.get('waitMs') ?? 0), longPollMs);
  if (after !== null) {
    await book.newerThan(Number(after), waitMs);
    await Bun.sleep(gatherMs);
  }
  return { version: book.version, entries: book.entries.map(toWire) };
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
