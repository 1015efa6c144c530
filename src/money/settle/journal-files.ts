import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { failureCode, GatewayError } from '../../core/errors.ts';
import { randomText } from '../../core/ids.ts';
import { fieldsOf, parseJson } from '../../core/json.ts';
import { noUsage } from '../../core/usage.ts';
import type { RequestRecord } from '../../records/request-record.ts';
import type { Settlement, SettlementEntry } from '../ledger.ts';
import { noCharges } from '../price/fee-kinds.ts';

/** Where the journals of all processes lie that share a data directory. */
export function journalRoot(dataDir: string): string {
  return join(dataDir, 'journal');
}

/**
 * Notes beside the journals which books they are for, and refuses those of others. In an empty or
 * mistyped database nobody has a wallet: every charge that waits in the journal would be written
 * off there, and removed as booked.
 */
export function claimJournals(dataDir: string, ledgerId: string): void {
  if (journalsBelongTo(dataDir, ledgerId)) return;
  const root = journalRoot(dataDir);
  const file = ownerFile(root);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  // Never half written, also where several processes start at once.
  const draft = `${file}.${randomText(8)}`;
  writeFileSync(draft, `${ledgerId}\n`, { mode: 0o600, flush: true });
  renameSync(draft, file);
}

/** Whether the journals are noted as those of these books; throws for journals of other books. */
export function journalsBelongTo(dataDir: string, ledgerId: string): boolean {
  const root = journalRoot(dataDir);
  const file = ownerFile(root);
  const owner = readOwner(file);
  if (owner === ledgerId) return true;
  if (owner !== undefined && readdirSync(root).some(readFolderName))
    throw foreignJournals(root, file);
  return false;
}

function ownerFile(root: string): string {
  return join(root, 'books');
}

/** Says in a sentence why the operating system denies us a journal; other failures stay. */
export function journalFailure(error: unknown): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'path' in error)) return error;
  const code = failureCode(error);
  const isDenied = code === 'EACCES' || code === 'EPERM';
  const advice = isDenied ? ': give its folder to the user that runs Tollgate' : '';
  const message = `The journal ${error.path} cannot be used (${code})${advice}.`;
  return new GatewayError('service_unavailable', message, { cause: error });
}

function readOwner(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if (failureCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function foreignJournals(root: string, file: string): GatewayError {
  return new GatewayError(
    'service_unavailable',
    `The journal ${root} has requests of another database: start once with that one, or move the ` +
      `folder away; where this is an older copy of it, remove ${file}.`,
  );
}

/** One file of the journal: whole lines, one after the other. */
export class Segment {
  readonly file: number;
  /** Requests whose dispatch or end stands here and is not in the books yet, and since when. */
  readonly uncommitted = new Map<string, number>();
  readonly #path: string;
  #bytes = 0;
  #isTorn = false;

  /** `lasting`: the file's name, too, survives a power cut. */
  constructor(path: string, durable: boolean) {
    this.#path = path;
    this.file = openSync(path, 'a', 0o600);
    if (durable) syncFolder(dirname(path));
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Writes all of it or throws. A full disk can take half a line: that half is taken back. */
  write(lines: string): void {
    // Where taking it back failed, a line break comes first: only the torn line is lost.
    const text = this.#isTorn ? `\n${lines}` : lines;
    const bytes = Buffer.byteLength(text);
    let written = 0;
    try {
      written = writeSync(this.file, text);
    } finally {
      if (written < bytes) this.#undoPartialWrite();
    }
    if (written < bytes) throw new Error('The disk took only a part of the line.');
    this.#bytes += written;
    this.#isTorn = false;
  }

  remove(): void {
    this.close();
    rmSync(this.#path, { force: true });
  }

  close(): void {
    closeSync(this.file);
  }

  #undoPartialWrite(): void {
    try {
      ftruncateSync(this.file, this.#bytes);
    } catch {
      this.#isTorn = true;
    }
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** What is known of a request when it is sent to an upstream. */
export type DispatchedRequest = Pick<
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
  | { readonly kind: 'dispatched'; readonly call: DispatchedRequest }
  | { readonly kind: 'settled'; readonly settlement: Settlement };

export function dispatchedLine(call: DispatchedRequest): string {
  return withChecksum(`{"kind":"dispatched","call":${JSON.stringify(call)}`);
}

export function settledLine({ text }: SettlementEntry): string {
  return withChecksum(`{"kind":"settled","settlement":${text}`);
}

/** Adds a checksum: a disk that turns one digit must not make a charge. */
function withChecksum(lineText: string): string {
  return `${lineText},"sum":${Bun.hash.crc32(lineText)}}\n`;
}

/** The lines of a segment that are as they were written; `onDamaged` is called for all others. */
export function* readLines(text: string, onDamaged = () => {}): Generator<JournalLine> {
  for (const lineText of text.split('\n')) {
    if (lineText === '') continue;
    const line = readLine(lineText);
    if (line) yield line;
    else onDamaged();
  }
}

/** Undefined for a line that was torn, at the end or by a full disk, or damaged later. */
function readLine(lineText: string): JournalLine | undefined {
  const withoutChecksum = lineText.slice(0, lineText.lastIndexOf(',"sum":'));
  if (`${lineText}\n` !== withChecksum(withoutChecksum)) return undefined;
  const { kind, call, settlement } = fieldsOf(parseJson(lineText));
  // Nobody else writes these files.
  if (kind === 'dispatched') return { kind, call: call as DispatchedRequest };
  return { kind: 'settled', settlement: settlement as Settlement };
}

/** A call that was under way when its gateway died: nobody saw its end, so nobody pays. */
export function unfinishedSettlement(call: DispatchedRequest): Settlement {
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
