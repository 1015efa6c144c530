import { hostname } from 'node:os';
import { fieldsOf, parseJson } from '../core/json.ts';
import { noUsage } from '../core/usage.ts';
import { noCharges, type RequestRecord } from '../record/request-record.ts';
import type { Settlement } from './ledger-store.ts';
import type { Slip } from './slip.ts';

/** What is known of a request when it is sent to an upstream. */
export type Dispatched = Pick<
  RequestRecord,
  | 'requestId'
  | 'tenantId'
  | 'keyId'
  | 'operation'
  | 'jobId'
  | 'requestedModel'
  | 'streamed'
  | 'createdAt'
>;

export type JournalLine =
  | { readonly kind: 'dispatched'; readonly call: Dispatched }
  | { readonly kind: 'settled'; readonly settlement: Settlement };

export function dispatchedLine(call: Dispatched): string {
  return sealed(`{"kind":"dispatched","call":${JSON.stringify(call)}`);
}

export function settledLine({ text }: Slip): string {
  return sealed(`{"kind":"settled","settlement":${text}`);
}

/** Adds a checksum: a disk that turns one digit must not make a charge. */
function sealed(words: string): string {
  return `${words},"sum":${Bun.hash.crc32(words)}}\n`;
}

/** The lines of a segment that are as they were written; `onDamaged` is called for all others. */
export function* readLines(text: string, onDamaged = () => {}): Generator<JournalLine> {
  for (const words of text.split('\n')) {
    if (words === '') continue;
    const line = readLine(words);
    if (line) yield line;
    else onDamaged();
  }
}

/** Undefined for a line that was torn, at the end or by a full disk, or damaged later. */
function readLine(words: string): JournalLine | undefined {
  const unsealed = words.slice(0, words.lastIndexOf(',"sum":'));
  if (`${words}\n` !== sealed(unsealed)) return undefined;
  const { kind, call, settlement } = fieldsOf(parseJson(words));
  // Nobody else writes these files.
  if (kind === 'dispatched') return { kind, call: call as Dispatched };
  return { kind: 'settled', settlement: settlement as Settlement };
}

/** A call that was under way when its gateway died: nobody saw its end, so nobody pays. */
export function unfinished(call: Dispatched): Settlement {
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
