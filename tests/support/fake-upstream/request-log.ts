/** Logs what the fake upstream received and sent, so that tests can check the charges. */

import {
  describeRequest,
  type LoggedRequest,
  newTotals,
  type Outcome,
  type RequestTotals,
  reportedTokens,
} from './logged-request.ts';
import { countWords, type ParsedRequest } from './parsed-request.ts';
import type { RequestHead } from './request-reader.ts';
import type { Part } from './sse.ts';

/** Requests above this limit count only in totals, so that load tests don't use up the memory. */
const entriesMax = 500_000;
const textLengthMax = 4 * 1024 * 1024;
const malformedMax = 100;

/** Far below the timeout of tests, so that a failed wait ends with this log's error message. */
export const defaultWaitMs = 20_000;

export function clock(): number {
  return performance.timeOrigin + performance.now();
}

export class RequestLog {
  entries: LoggedRequest[] = [];
  /** Increases with every change, so that another process can wait for the next one. */
  version = 0;
  private totals = newTotals();
  private counted = new Map<LoggedRequest, string>();
  private watchers = new Set<() => void>();
  private lastId = 0;
  private readonly lean: boolean;

  /** A lean log doesn't store headers, bodies, or texts. */
  constructor(lean: boolean) {
    this.lean = lean;
  }

  begin(head: RequestHead, connection: number): LoggedRequest {
    this.lastId += 1;
    const entry: LoggedRequest = {
      id: this.lastId,
      connection,
      at: clock(),
      method: head.method,
      path: head.path,
      headers: this.lean ? {} : head.headers,
      raw: new Uint8Array(),
      bodyBytes: 0,
      bodyAt: null,
      json: undefined,
      form: undefined,
      model: undefined,
      stream: false,
      status: null,
      bytesSent: 0,
      eventsSent: 0,
      pauses: 0,
      text: '',
      usageSent: undefined,
      tokens: { prompt: 0, completion: 0 },
      firstByteAt: null,
      finishedAt: null,
      closedAt: null,
      outcome: 'open',
    };
    if (this.entries.length < entriesMax) this.entries.push(entry);
    const totals = this.totals;
    totals.requests += 1;
    totals.open += 1;
    totals.openMax = Math.max(totals.openMax, totals.open);
    this.counted.set(entry, '');
    this.changed();
    return entry;
  }

  bodyRead(entry: LoggedRequest, raw: Uint8Array): void {
    entry.bodyBytes = raw.length;
    entry.bodyAt = clock();
    if (!this.lean) entry.raw = raw;
    this.changed();
  }

  parsed(entry: LoggedRequest, request: ParsedRequest): void {
    entry.model = request.model;
    entry.stream = request.stream;
    entry.tokens.prompt = request.promptTokens;
    if (!this.lean) {
      entry.json = request.json;
      entry.form = request.form;
    }
    this.changed();
  }

  sentBytes(entry: LoggedRequest, count: number): void {
    if (entry.bytesSent === 0) entry.firstByteAt = clock();
    entry.bytesSent += count;
    this.totals.bytesSent += count;
  }

  sentPart(entry: LoggedRequest, part: Part): void {
    entry.eventsSent += part.events;
    if (part.usage !== undefined) entry.usageSent = part.usage;
    if (!this.lean && entry.text.length < textLengthMax) entry.text += part.text ?? '';
    const counted = this.counted.get(entry);
    if (counted !== undefined) this.counted.set(entry, counted + (part.counted ?? ''));
    this.changed();
  }

  markHung(entry: LoggedRequest): void {
    entry.outcome = 'hung';
    this.changed();
  }

  end(entry: LoggedRequest, outcome: Outcome): void {
    const counted = this.counted.get(entry);
    // The entry is from before a reset or has already ended.
    if (counted === undefined) return;
    this.counted.delete(entry);
    entry.outcome = outcome;
    entry.finishedAt = clock();
    entry.tokens = reportedTokens(entry.usageSent, {
      prompt: entry.tokens.prompt,
      completion: countWords(counted),
    });
    this.addToTotals(entry);
    this.changed();
  }

  private addToTotals(entry: LoggedRequest): void {
    const totals = this.totals;
    totals.open -= 1;
    totals.byOutcome[entry.outcome] = (totals.byOutcome[entry.outcome] ?? 0) + 1;
    const status = String(entry.status ?? 'none');
    totals.byStatus[status] = (totals.byStatus[status] ?? 0) + 1;
    const model = entry.model ?? 'none';
    const sum = totals.byModel[model] ?? { requests: 0, promptTokens: 0, completionTokens: 0 };
    sum.requests += 1;
    sum.promptTokens += entry.tokens.prompt;
    sum.completionTokens += entry.tokens.completion;
    totals.byModel[model] = sum;
  }

  closed(entry: LoggedRequest): void {
    entry.closedAt = clock();
    this.changed();
  }

  connectionOpened(): number {
    this.totals.connections += 1;
    this.totals.connectionsOpen += 1;
    return this.totals.connections;
  }

  connectionClosed(): void {
    this.totals.connectionsOpen -= 1;
    this.changed();
  }

  malformed(reason: string): void {
    if (this.totals.malformed.length < malformedMax) this.totals.malformed.push(reason);
    this.changed();
  }

  summary(): RequestTotals {
    return structuredClone(this.totals);
  }

  /** Removes all entries. Connections stay open. */
  reset(): void {
    const { connections, connectionsOpen } = this.totals;
    this.totals = { ...newTotals(), connections, connectionsOpen };
    this.entries = [];
    this.counted = new Map();
    this.changed();
  }

  private changed(): void {
    this.version += 1;
    for (const look of [...this.watchers]) look();
  }

  /** Waits until `look` returns a value for the entries. Calls it after every change. */
  async until<Found>(
    look: (entries: readonly LoggedRequest[]) => Found | undefined | null | false,
    timeoutMs = defaultWaitMs,
  ): Promise<Found> {
    const found = await this.watch(() => look(this.entries), timeoutMs);
    if (found !== undefined && found !== null && found !== false) return found;
    const last = this.entries.slice(-5).map(describeRequest).join('; ');
    throw new Error(`No matching request after ${timeoutMs} ms. The last requests: ${last}`);
  }

  /** Waits for a newer version or the timeout. */
  async newerThan(version: number, timeoutMs: number): Promise<void> {
    await this.watch(() => this.version > version, timeoutMs);
  }

  private async watch<Found>(look: () => Found, timeoutMs: number): Promise<Found> {
    const { promise, resolve, reject } = Promise.withResolvers<Found>();
    const check = () => {
      try {
        const found = look();
        if (found !== undefined && found !== null && found !== false) resolve(found);
      } catch (error) {
        reject(error);
      }
    };
    const timer = setTimeout(() => resolve(look()), timeoutMs);
    this.watchers.add(check);
    check();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.watchers.delete(check);
    }
  }
}
