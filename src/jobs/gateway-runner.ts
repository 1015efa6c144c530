import { createHash } from 'node:crypto';
import { callerForKey } from '../auth/authenticate.ts';
import type { Answer, Call, Operation, RequestOutcome } from '../call.ts';
import { replyBytesMax } from '../core/bounds.ts';
import { type Caller, mayUseModel } from '../core/caller.ts';
import { noPreferences, type RequestInfo } from '../core/request-info.ts';
import { bodyFromBytes } from '../dialects/streamed-body.ts';
import { handleCall, type Stages } from '../gateway.ts';
import type { Accounting } from '../money/accounting.ts';
import { totalCharge } from '../money/price/fee-kinds.ts';
import { SpeechOperation } from '../operations/speech/speech-operation.ts';
import { audioFileFor, readDurationSeconds } from '../operations/transcription/audio-file.ts';
import { TranscriptionOperation } from '../operations/transcription/transcription-operation.ts';
import type { RequestRecord } from '../records/request-record.ts';
import type { Store } from '../store/open.ts';
import { noMetrics } from '../upstream/attempt.ts';
import type { OpenedAnswer } from '../upstream/fallback.ts';
import {
  type FinishedPiece,
  type JobRunner,
  type PieceCharge,
  RequestIdUsedError,
  type SpeechPiece,
  type StopReason,
  type TranscriptionPiece,
} from './runner.ts';

export interface RunnerDeps {
  readonly store: Pick<Store, 'directory' | 'requestLog'>;
  readonly accounting: Pick<Accounting, 'readSettled'>;
  /** Returns the pipeline stages under the current configuration. */
  stages(): Stages;
  /** The database's clock, which decides whether a key has expired. */
  now(): number;
}

/** The outcome of the settlement, filled in when the call has ended. */
interface PieceBill {
  costCredits: number;
  provider: string;
  seconds: number | null;
}

/** Runs each piece of a job as one gateway call. */
export class GatewayJobRunner implements JobRunner {
  readonly #deps: RunnerDeps;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
  }

  /**
   * Gives each piece its own signal. Upstream calls never remove their listeners, which would
   * accumulate on the signal of a job that runs for hours.
   */
  async run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece> {
    const { signal } = piece;
    const controller = new AbortController();
    const abort = () => controller.abort(signal.reason);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    try {
      return await this.#run({ ...piece, signal: controller.signal });
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  async #run(piece: SpeechPiece | TranscriptionPiece): Promise<FinishedPiece> {
    const { store, stages, now } = this.#deps;
    const { tenantId, keyId } = piece;
    const caller = await callerForKey(store.directory, tenantId, keyId, now());
    const call: Call = {
      requestId: piece.requestId,
      caller,
      clientSignal: piece.signal,
      receivedAt: Date.now(),
      pricedAt: piece.jobCreatedAt,
      startedAt: performance.now(),
      clientHeader: () => null,
      headers: {},
      attempts: [],
      operationName: piece.type,
      jobId: piece.jobId,
      requestedModel: '',
      operation: undefined,
      releaseSlot: undefined,
      hold: undefined,
      replayOptions: { cacheControl: 'no-store', idempotencyKey: null },
      recordingSession: undefined,
    };
    const bill: PieceBill = { costCredits: 0, provider: '', seconds: null };
    const charge = await this.chargeOf(tenantId, piece.requestId);
    // The piece was charged to the tenant, but its worker crashed before it stored the result.
    const isPaid = charge.kind === 'charged';
    const read = async () => {
      const operation = await operationOf(piece, caller);
      return isPaid ? alreadyPaid(operation) : operation;
    };
    const answer = await handleCall(call, read, withBilling(stages(), bill));
    const bytes = await bytesOf(answer);
    if (isPaid) return { bytes, ...bill, costCredits: charge.credits };
    await this.#checkCharge(call, bill);
    return { bytes, ...bill };
  }

  async chargeOf(tenantId: string, requestId: string): Promise<PieceCharge> {
    const record = await this.#findRecord(tenantId, requestId);
    if (!record) return { kind: 'unrecorded' };
    const credits = totalCharge(record.charges);
    return credits > 0 ? { kind: 'charged', credits } : { kind: 'free' };
  }

  /** Corrects the bill if the ledger accepted this ID from another worker while the piece ran. */
  async #checkCharge({ caller, requestId, receivedAt }: Call, bill: PieceBill): Promise<void> {
    if (bill.costCredits === 0) return;
    const record = await this.#findRecord(caller.tenantId, requestId);
    if (!record) return;
    bill.costCredits = totalCharge(record.charges);
    if (bill.costCredits > 0 || record.createdAt === receivedAt) return;
    throw new RequestIdUsedError('Another worker used the request id of this piece.');
  }

  #findRecord(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    const { accounting, store } = this.#deps;
    return accounting.readSettled(() => store.requestLog.find(tenantId, requestId), tenantId);
  }
}

async function bytesOf(answer: Answer): Promise<Uint8Array> {
  if (answer.kind === 'reply') return Buffer.from(answer.body);
  const content: AsyncIterable<string | Uint8Array> =
    answer.kind === 'bytes' ? answer.bytes : answer.events;
  const chunks: Uint8Array[] = [];
  for await (const chunk of content) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/**
 * Adds billing to the stages and removes rate and concurrency limits: the job was counted when it
 * was created, and the worker limits its own concurrency.
 */
function withBilling(stages: Stages, bill: PieceBill): Stages {
  return {
    ...stages,
    countRequest: () => undefined,
    acquireSlot: () => () => undefined,
    tryOffers: async (...args) => withByteLimit(await stages.tryOffers(...args)),
    async settle(call, outcome) {
      const settled = await stages.settle(call, withoutLostUsage(call, outcome));
      if ('opened' in outcome) {
        bill.provider = outcome.opened.offer.provider.name;
        const audioMs = call.operation?.measure(outcome.metrics, outcome.kind).units.audioMs;
        bill.seconds = audioMs === undefined ? null : audioMs / 1000;
      }
      bill.costCredits = settled.costCredits;
      return settled;
    },
  };
}

/** Limits the size of a piece's audio, which is held in memory. Longer audio is interrupted. */
function withByteLimit(opened: OpenedAnswer): OpenedAnswer {
  const { answer } = opened;
  if (answer.kind !== 'bytes') return opened;
  let bytes = answer.first.length;
  const next = async () => {
    const chunk = await answer.next();
    bytes += chunk?.length ?? 0;
    if (bytes > replyBytesMax) throw new Error(`The audio is longer than ${replyBytesMax} bytes.`);
    return chunk;
  };
  return { ...opened, answer: { ...answer, next } };
}

/**
 * Removes the usage of an interrupted piece, because its audio is discarded. A charge would also
 * use up the ID of the piece. The complete piece couldn't be charged when another worker runs it.
 */
function withoutLostUsage({ clientSignal }: Call, outcome: RequestOutcome): RequestOutcome {
  const isCanceled = clientSignal.reason === ('cancelled' satisfies StopReason);
  const isLost =
    outcome.kind === 'interrupted' || (outcome.kind === 'client_disconnected' && !isCanceled);
  return isLost ? { ...outcome, metrics: noMetrics } : outcome;
}

/** Returns the operation that a client request for the same audio would have. */
async function operationOf(
  piece: SpeechPiece | TranscriptionPiece,
  caller: Caller,
): Promise<Operation> {
  const { type: operationName, model, provider, alias } = piece;
  const request: RequestInfo = {
    operationName,
    models: [model],
    granted: alias !== undefined && mayUseModel(caller, alias) ? [model] : [],
    preferences: { ...noPreferences, only: provider === null ? null : [provider] },
    stream: false,
    parameters: [],
    user: null,
  };
  if (piece.type === 'speech') {
    const { input, voice, format, speed, instructions } = piece;
    return new SpeechOperation({
      request,
      input,
      voice,
      format,
      speed,
      instructions,
      extraFields: {},
    });
  }
  const { audio, format, language, prompt, temperature, granularities } = piece;
  const file = audioFileFor(piece.extension);
  const content = bodyFromBytes(audio);
  const seconds = await readDurationSeconds(content, file.contentType);
  const sha256 = createHash('sha256').update(audio).digest('hex');
  const options = { format, language, prompt, temperature, granularities, extraFields: {} };
  return new TranscriptionOperation({ request, options }, { ...file, content, sha256, seconds });
}

/** Wraps the operation of an already charged piece so that it holds and costs no credits. */
function alreadyPaid(operation: Operation): Operation {
  const { request, bounds } = operation;
  return {
    request,
    bounds: {
      boundFor: () => ({ requested: 0, minimum: 0, maximum: 0 }),
      tokensMaxFor: (offer) => bounds.tokensMaxFor(offer),
    },
    incompatibility: (offer) => operation.incompatibility(offer),
    lostFields: (offer) => operation.lostFields(offer),
    refine: (plan) => operation.refine?.(plan) ?? plan,
    tryAt: (offer, context) => operation.tryAt(offer, context),
    measure: (metrics, kind) => ({ ...operation.measure(metrics, kind), isFree: true }),
  };
}
