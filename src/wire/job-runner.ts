import { callerOfKey } from '../auth/key-caller.ts';
import type { Books } from '../books.ts';
import type { Answer, Call, Ending } from '../call.ts';
import { replyBytesMax } from '../core/bounds.ts';
import { answer, type Steps } from '../gateway.ts';
import {
  type FinishedPiece,
  IdUsedUp,
  type JobRunner,
  type SpeechPiece,
  type StopReason,
  type TranscriptionPiece,
} from '../jobs/runner.ts';
import { type RequestRecord, totalCharge } from '../record/request-record.ts';
import type { Store } from '../store/open.ts';
import type { Opened } from '../upstream/fallback.ts';
import { noFacts } from '../upstream/try-whole.ts';
import { errandOf, paidBefore } from './job-errands.ts';

export interface RunnerParts {
  readonly store: Pick<Store, 'directory' | 'requestLog'>;
  readonly books: Pick<Books, 'settled'>;
  /** The steps under the settings that are in force now. */
  steps(): Steps;
  /** The clock by which processes agree when a key has expired. */
  now(): number;
}

/** What the settlement says; filled in when the story has come to its end. */
interface PieceBill {
  costCredits: number;
  provider: string;
  seconds: number | null;
}

/** Runs each piece of a job as one call of the gateway's story. */
export class StoryRunner implements JobRunner {
  readonly #parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /**
   * Each piece has its own signal: lines never remove their listeners from a signal, and the
   * signal of a job lasts for hours.
   */
  async run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece> {
    const { signal } = piece;
    const own = new AbortController();
    const stop = () => own.abort(signal.reason);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    try {
      return await this.#run({ ...piece, signal: own.signal });
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async #run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece> {
    const { store, steps, now } = this.#parts;
    const { tenantId, keyId } = piece;
    const call: Call = {
      requestId: piece.requestId,
      caller: await callerOfKey(store.directory, tenantId, keyId, now()),
      client: piece.signal,
      receivedAt: Date.now(),
      startedAt: performance.now(),
      headers: {},
      trail: [],
      operation: piece.type,
      jobId: piece.jobId,
      modelNamed: '',
      errand: undefined,
      leave: undefined,
      hold: undefined,
      wishes: { cacheControl: 'no-store', idempotencyKey: null },
      memory: undefined,
    };
    const bill: PieceBill = { costCredits: 0, provider: '', seconds: null };
    // Charged by a worker that died before it had written the result down.
    const paid = (await this.chargeOf(tenantId, piece.requestId)) ?? 0;
    const read = async () => (paid > 0 ? paidBefore(await errandOf(piece)) : errandOf(piece));
    const body = await answer(call, read, billed(steps(), bill));
    const bytes = await bytesOf(body);
    if (paid > 0) return { bytes, ...bill, costCredits: paid };
    await this.#checkCharge(call, bill);
    return { bytes, ...bill };
  }

  async chargeOf(tenantId: string, requestId: string): Promise<number | null> {
    const record = await this.#booked(tenantId, requestId);
    return record ? totalCharge(record.charges) : null;
  }

  /** The books take an id once, and may have taken it from somebody else while the piece ran. */
  async #checkCharge({ caller, requestId, receivedAt }: Call, bill: PieceBill): Promise<void> {
    if (bill.costCredits === 0) return;
    const record = await this.#booked(caller.tenantId, requestId);
    if (!record) return;
    bill.costCredits = totalCharge(record.charges);
    if (bill.costCredits > 0 || record.createdAt === receivedAt) return;
    throw new IdUsedUp('The books took this piece from a worker that died in it or lost it.');
  }

  #booked(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    const { books, store } = this.#parts;
    return books.settled(() => store.requestLog.find(tenantId, requestId), tenantId);
  }
}

async function bytesOf(body: Answer): Promise<Uint8Array> {
  if (typeof body === 'string') return Buffer.from(body);
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/**
 * The job was counted when it was created, and the worker has bounds of its own: its pieces take
 * nothing of what the tenant's other requests may do at once.
 */
function billed(steps: Steps, bill: PieceBill): Steps {
  return {
    ...steps,
    countRequest: () => undefined,
    enter: () => () => undefined,
    openFirst: async (...around) => bounded(await steps.openFirst(...around)),
    async settle(call, ending) {
      const closing = await steps.settle(call, asHeard(call, ending));
      if ('opened' in ending) {
        bill.provider = ending.opened.offer.provider.name;
        const audioMs = call.errand?.measure(ending.facts, ending.how).units.audioMs;
        bill.seconds = audioMs === undefined ? null : audioMs / 1000;
      }
      bill.costCredits = closing.costCredits;
      return closing;
    },
  };
}

/** The audio of a piece is held in memory: where it does not end, the provider has broken off. */
function bounded(opened: Opened): Opened {
  const { answer } = opened;
  if (answer.kind !== 'bytes') return opened;
  let bytes = answer.first.length;
  const next = async () => {
    const more = await answer.next();
    bytes += more?.length ?? 0;
    if (bytes > replyBytesMax) throw new Error(`The audio is longer than ${replyBytesMax} bytes.`);
    return more;
  };
  return { ...opened, answer: { ...answer, next } };
}

/**
 * Audio of a piece that broke off reaches nobody, so nothing of it is charged: a charge would also
 * use up the id of the piece, and leave the whole one unpaid where it is run again, or is already.
 */
function asHeard({ client }: Call, ending: Ending): Ending {
  const isCancelled = client.reason === ('cancelled' satisfies StopReason);
  const isLost = ending.how === 'cut' || (ending.how === 'left' && !isCancelled);
  return isLost ? { ...ending, facts: noFacts } : ending;
}
