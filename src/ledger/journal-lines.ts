import { hostname } from 'node:os';
import type { OperationName } from '../core/ask.ts';
import { isObject, parseJson } from '../core/json.ts';
import { noUsage } from '../core/usage.ts';
import { noCharges, type RequestRecord } from '../record/request-record.ts';
import type { Settlement } from './ledger-store.ts';
import type { Slip } from './slip.ts';

/** What is known of a request when it is sent to an upstream. */
export interface Dispatched {
  readonly requestId: string;
  readonly tenantId: string;
  readonly keyId: string;
  readonly operation: OperationName;
  readonly requestedModel: string;
  readonly streamed: boolean;
  readonly createdAt: number;
}

export type JournalLine =
  | { readonly kind: 'dispatched'; readonly call: Dispatched }
  | { readonly kind: 'settled'; readonly settlement: Settlement };

export function dispatchedLine(call: Dispatched): string {
  return `{"kind":"dispatched","call":${JSON.stringify(call)}}\n`;
}

export function settledLine({ text }: Slip): string {
  return `{"kind":"settled","settlement":${text}}\n`;
}

/** The whole lines of a segment. A torn one, at the end or where the disk was full, is left out. */
export function* readLines(text: string): Generator<JournalLine> {
  for (const line of text.split('\n')) {
    const value = parseJson(line);
    // Nobody else writes these files; a line that parses and names its kind is one of ours.
    if (isObject(value) && (value.kind === 'dispatched' || value.kind === 'settled')) {
      yield value as unknown as JournalLine;
    }
  }
}

/** A call that was under way when its gateway died: nobody saw its end, so nobody pays. */
export function diedOf(call: Dispatched): Settlement {
  const record: RequestRecord = {
    ...call,
    model: null,
    provider: null,
    status: 'error',
    error: 'internal_error',
    trafficMode: 'shared',
    usage: noUsage,
    usageEstimated: false,
    charges: noCharges,
    prices: null,
    searches: 0,
    skills: [],
    note: 'The gateway stopped before this request ended.',
    finishReason: null,
    cancelled: false,
    cacheHit: false,
    firstByteMs: null,
    durationMs: 0,
    endUser: null,
    attempts: [],
  };
  return { record, writtenOff: 0, keyAccount: null, keyCharge: 0 };
}

/** Says whose journal it is: host, process number, and our own name for the process. */
export function journalFolderName(processId: string): string {
  return `${hostname()}~${process.pid}~${processId}`;
}

export interface JournalOwner {
  readonly host: string;
  readonly pid: number;
  readonly processId: string;
}

export function readFolderName(name: string): JournalOwner | undefined {
  const [host, pid, processId] = name.split('~');
  if (!host || !pid || !processId || !/^\d+$/.test(pid)) return undefined;
  return { host, pid: Number(pid), processId };
}
