import { strict as assert } from 'node:assert';
import { callerOfKey } from '../auth/key-caller.ts';
import type { Books } from '../books.ts';
import type { Answer, Call, Ending, Errand } from '../call.ts';
import { answer, type Steps } from '../gateway.ts';
import {
  IdUsedUp,
  type JobRunner,
  type SpeechPiece,
  type StopReason,
  type SynthesisedPiece,
  type TranscribedPiece,
  type TranscriptionPiece,
} from '../jobs/runner.ts';
import { type RequestRecord, totalCharge } from '../record/request-record.ts';
import type { Store } from '../store/open.ts';
import { noFacts } from '../upstream/try-whole.ts';

/** Pieces of jobs as errands of the gateway's story. */
export interface JobErrands {
  speech(piece: SpeechPiece): Promise<Errand>;
  transcription(piece: TranscriptionPiece): Promise<Errand>;
}

export interface RunnerParts {
  readonly store: Pick<Store, 'directory' | 'requestLog'>;
  readonly books: Pick<Books, 'flush'>;
  readonly errands: JobErrands;
  /** Those of the settings at hand. */
  steps(): Steps;
}

type AnyPiece = SpeechPiece | TranscriptionPiece;

interface Answered {
  readonly call: Call;
  readonly body: Answer;
  readonly bill: Bill;
}

/** What the settlement says; filled in when the story has come to its end. */
interface Bill {
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

  async synthesise(piece: SpeechPiece): Promise<SynthesisedPiece> {
    const { errands } = this.#parts;
    const { body, call, bill } = await this.#run(piece, () => errands.speech(piece));
    assert(typeof body !== 'string', 'Speech was answered in words.');
    const chunks: Uint8Array[] = [];
    for await (const chunk of body) {
      assert(typeof chunk !== 'string', 'Speech was answered in events.');
      chunks.push(chunk);
    }
    await this.#checkCharge(call, bill);
    return { audio: Buffer.concat(chunks), ...bill };
  }

  async transcribe(piece: TranscriptionPiece): Promise<TranscribedPiece> {
    const { errands } = this.#parts;
    const read = () => errands.transcription(piece);
    const { body, call, bill } = await this.#run(piece, read);
    assert(typeof body === 'string', 'A transcription was answered in pieces.');
    await this.#checkCharge(call, bill);
    return { body, ...bill };
  }

  async chargeOf(tenantId: string, requestId: string): Promise<number | null> {
    const record = await this.#booked(tenantId, requestId);
    return record ? totalCharge(record.charges) : null;
  }

  /** The books take an id once, and may have taken it from somebody else while the piece ran. */
  async #checkCharge({ caller, requestId, receivedAt }: Call, bill: Bill): Promise<void> {
    if (bill.costCredits === 0) return;
    const record = await this.#booked(caller.tenantId, requestId);
    if (!record || record.createdAt === receivedAt) return;
    bill.costCredits = totalCharge(record.charges);
    if (bill.costCredits > 0) return;
    throw new IdUsedUp('The books took this piece from a worker that died in it or lost it.');
  }

  async #booked(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    const { books, store } = this.#parts;
    await books.flush();
    return store.requestLog.find(tenantId, requestId);
  }

  async #run(piece: AnyPiece, read: () => Promise<Errand>): Promise<Answered> {
    const { store, steps } = this.#parts;
    const caller = await callerOfKey(store.directory, piece.tenantId, piece.keyId, Date.now());
    const bill: Bill = { costCredits: 0, provider: '', seconds: null };
    const call: Call = {
      requestId: piece.requestId,
      caller,
      client: piece.signal,
      receivedAt: Date.now(),
      startedAt: performance.now(),
      headers: {},
      trail: [],
      operation: 'input' in piece ? 'speech' : 'transcription',
      jobId: piece.jobId,
      modelNamed: '',
      errand: undefined,
      leave: undefined,
      hold: undefined,
      wishes: { cacheControl: 'no-store', idempotencyKey: null },
      memory: undefined,
    };
    return { call, body: await answer(call, read, billed(steps(), bill)), bill };
  }
}

/**
 * The job was counted when it was created, and the worker has bounds of its own: its pieces take
 * nothing of what the tenant's other requests may do at once.
 */
function billed(steps: Steps, bill: Bill): Steps {
  return {
    ...steps,
    countRequest: () => undefined,
    enter: () => () => undefined,
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

/**
 * Audio of a piece that broke off reaches nobody, so nothing of it is charged: a charge would also
 * use up the id of the piece, and leave the whole one unpaid where it is run again, or is already.
 */
function asHeard({ client }: Call, ending: Ending): Ending {
  const isCancelled = client.reason === ('cancelled' satisfies StopReason);
  const isLost = ending.how === 'cut' || (ending.how === 'left' && !isCancelled);
  return isLost ? { ...ending, facts: noFacts } : ending;
}
