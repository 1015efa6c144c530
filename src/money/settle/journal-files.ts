import {
  closeSync,
  fstatSync,
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
import { releasedPathOf } from './released-answers.ts';

/** Returns the folder with the journals of all processes that share a data directory. */
export function journalRoot(dataDir: string): string {
  return join(dataDir, 'journal');
}

/**
 * Records which deployment the journals belong to. Throws 503 if they belong to another one. If
 * they were replayed into the wrong database, which lacks their wallets, all charges would be
 * written off.
 */
export function claimJournals(dataDir: string, deploymentId: string): void {
  if (journalsBelongTo(dataDir, deploymentId)) return;
  const root = journalRoot(dataDir);
  const file = ownerFile(root);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  // Write and rename, so that processes starting together never read half a file.
  const draft = `${file}.${randomText(8)}`;
  writeFileSync(draft, `${deploymentId}\n`, { mode: 0o600, flush: true });
  renameSync(draft, file);
}

/** Returns whether the journals belong to this deployment. Throws 503 if they belong to another. */
export function journalsBelongTo(dataDir: string, deploymentId: string): boolean {
  const root = journalRoot(dataDir);
  const file = ownerFile(root);
  const owner = readOwner(file);
  if (owner === deploymentId) return true;
  if (owner !== undefined && readdirSync(root).some(readFolderName))
    throw foreignJournals(root, file);
  return false;
}

function ownerFile(root: string): string {
  return join(root, 'ledger-id');
}

const ownerAdvice = ' Make the user that runs Tollgate the owner of its folder.';
const failureAdvice: Record<string, string> = {
  EACCES: ownerAdvice,
  EPERM: ownerAdvice,
  ENOSPC: ' Its disk is full, so free some space.',
};

/** Explains an operating system error that concerns a journal. Returns other errors unchanged. */
export function journalFailure(error: unknown): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'path' in error)) return error;
  const code = failureCode(error);
  const advice = failureAdvice[code ?? ''] ?? '';
  const message = `The journal ${error.path} can't be used (${code}).${advice}`;
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
    `The journal folder ${root} contains requests from another database. Start once with that ` +
      `database, or move the folder elsewhere. If this database is an older copy of the other one, delete ${file}.`,
  );
}

/** One file of the journal. */
export class Segment {
  readonly file: number;
  /** Request id → time of its first line here, for requests that aren't committed yet. */
  readonly uncommitted = new Map<string, number>();
  readonly path: string;
  #bytes = 0;
  #isTorn = false;

  /** If `durable`, syncs the folder, too, so that the file's name survives a power failure. */
  constructor(path: string, durable: boolean) {
    this.path = path;
    this.file = openSync(path, 'a', 0o600);
    if (durable) syncFolder(dirname(path));
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** True if the file has no name anymore. Checking takes 1 µs. */
  get isRemoved(): boolean {
    return fstatSync(this.file).nlink === 0;
  }

  /**
   * Writes all lines or throws. If the disk is full and only part was written, removes that part.
   */
  write(lines: string): void {
    // If truncating failed, start with a line break, so that only the torn line is lost.
    const text = this.#isTorn ? `\n${lines}` : lines;
    const bytes = Buffer.byteLength(text);
    let written = 0;
    try {
      written = writeSync(this.file, text);
    } finally {
      if (written < bytes) this.#undoPartialWrite();
    }
    if (written < bytes) throw new Error('The disk is full: only part of the line was written.');
    this.#bytes += written;
    this.#isTorn = false;
  }

  remove(): void {
    this.close();
    rmSync(this.path, { force: true });
    rmSync(releasedPathOf(this.path), { force: true });
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

/** Syncs a folder, so that the names of the files in it survive a power failure. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** The part of a request's record that is known before it is sent upstream. */
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

/** Adds a checksum, so that a corrupted digit can't become a charge. */
function withChecksum(lineText: string): string {
  return `${lineText},"sum":${Bun.hash.crc32(lineText)}}\n`;
}

/** Yields the intact lines of a segment. Calls `onDamaged` for each damaged one. */
export function* readLines(text: string, onDamaged = () => {}): Generator<JournalLine> {
  for (const lineText of text.split('\n')) {
    if (lineText === '') continue;
    const line = readLine(lineText);
    if (line) yield line;
    else onDamaged();
  }
}

/** Returns undefined for a torn or damaged line. */
function readLine(lineText: string): JournalLine | undefined {
  const withoutChecksum = lineText.slice(0, lineText.lastIndexOf(',"sum":'));
  if (`${lineText}\n` !== withChecksum(withoutChecksum)) return undefined;
  const { kind, call, settlement } = fieldsOf(parseJson(lineText));
  // Only this module writes these files.
  if (kind === 'dispatched') return { kind, call: call as DispatchedRequest };
  return { kind: 'settled', settlement: withAllFees(settlement as Settlement) };
}

/** Adds the fee kinds that didn't exist yet when an earlier version wrote the settlement. */
function withAllFees(settlement: Settlement): Settlement {
  const { record } = settlement;
  return { ...settlement, record: { ...record, charges: { ...noCharges, ...record.charges } } };
}

/** Returns a free settlement for a call that was in progress when its process died. */
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

/** Returns the folder name of a process's journal: host, PID, and the random ID of the instance. */
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
