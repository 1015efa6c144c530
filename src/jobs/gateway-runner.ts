import { createHash } from 'node:crypto';
import { callerForKey } from '../auth/authenticate.ts';
import type { Answer, Call, Operation, RequestOutcome } from '../call.ts';
import { replyBytesMax } from '../core/bounds.ts';
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
import type { Opened } from '../upstream/fallback.ts';
import {
  type FinishedPiece,
  type JobRunner,
  RequestIdUsedError,
  type SpeechPiece,
  type StopReason,
  type TranscriptionPiece,
} from './runner.ts';

export interface RunnerDeps {
  readonly store: Pick<Store, 'directory' | 'requestLog'>;
  readonly accounting: Pick<Accounting, 'readSettled'>;
  /** The steps under the settings that are in force now. */
  stages(): Stages;
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
export class GatewayJobRunner implements JobRunner {
  readonly #deps: RunnerDeps;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
  }

  /**
   * Each piece has its own signal: lines never remove their listeners from a signal, and the
   * signal of a job lasts for hours.
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
    const call: Call = {
      requestId: piece.requestId,
      caller: await callerForKey(store.directory, tenantId, keyId, now()),
      client: piece.signal,
      receivedAt: Date.now(),
      startedAt: performance.now(),
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
    // Charged by a worker that died before it had written the result down.
    const paidCredits = (await this.chargeOf(tenantId, piece.requestId)) ?? 0;
    const read = async () =>
      paidCredits > 0 ? alreadyPaid(await operationOf(piece)) : operationOf(piece);
    const body = await handleCall(call, read, withBilling(stages(), bill));
    const bytes = await bytesOf(body);
    if (paidCredits > 0) return { bytes, ...bill, costCredits: paidCredits };
    await this.#checkCharge(call, bill);
    return { bytes, ...bill };
  }

  async chargeOf(tenantId: string, requestId: string): Promise<number | null> {
    const record = await this.#findRecord(tenantId, requestId);
    return record ? totalCharge(record.charges) : null;
  }

  /** The books take an id once, and may have taken it from somebody else while the piece ran. */
  async #checkCharge({ caller, requestId, receivedAt }: Call, bill: PieceBill): Promise<void> {
    if (bill.costCredits === 0) return;
    const record = await this.#findRecord(caller.tenantId, requestId);
    if (!record) return;
    bill.costCredits = totalCharge(record.charges);
    if (bill.costCredits > 0 || record.createdAt === receivedAt) return;
    throw new RequestIdUsedError(
      'The books took this piece from a worker that died in it or lost it.',
    );
  }

  #findRecord(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    const { accounting, store } = this.#deps;
    return accounting.readSettled(() => store.requestLog.find(tenantId, requestId), tenantId);
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
function withBilling(stages: Stages, bill: PieceBill): Stages {
  return {
    ...stages,
    countRequest: () => undefined,
    acquireSlot: () => () => undefined,
    openFirst: async (...args) => withByteLimit(await stages.openFirst(...args)),
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

/** The audio of a piece is held in memory: where it does not end, the provider has broken off. */
function withByteLimit(opened: Opened): Opened {
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
 * Audio of a piece that broke off reaches nobody, so nothing of it is charged: a charge would also
 * use up the id of the piece, and leave the whole one unpaid where it is run again, or is already.
 */
function withoutLostUsage({ client }: Call, outcome: RequestOutcome): RequestOutcome {
  const isCanceled = client.reason === ('cancelled' satisfies StopReason);
  const isLost =
    outcome.kind === 'interrupted' || (outcome.kind === 'client_disconnected' && !isCanceled);
  return isLost ? { ...outcome, metrics: noMetrics } : outcome;
}

/** A piece of a job as the errand that a request for the same audio would be. */
async function operationOf(piece: SpeechPiece | TranscriptionPiece): Promise<Operation> {
  const { type: operationName, model, provider } = piece;
  const request: RequestInfo = {
    operationName,
    models: [model],
    preferences: { ...noPreferences, only: provider === null ? null : [provider] },
    stream: false,
    parameters: [],
    user: null,
  };
  if (piece.type === 'speech') {
    const { input, voice, format, speed, instructions } = piece;
    return new SpeechOperation({ request, input, voice, format, speed, instructions, more: {} });
  }
  const { audio, format, language, prompt, temperature, granularities } = piece;
  const file = audioFileFor(piece.extension);
  const content = bodyFromBytes(audio);
  const seconds = await readDurationSeconds(content, file.contentType);
  const sha256 = createHash('sha256').update(audio).digest('hex');
  const options = { format, language, prompt, temperature, granularities, more: {} };
  return new TranscriptionOperation({ request, options }, { ...file, content, sha256, seconds });
}

/**
 * The errand of a piece that is already paid for: asking again holds no credits and costs nothing.
 */
function alreadyPaid(operation: Operation): Operation {
  const { request, bounds } = operation;
  return {
    request,
    bounds: {
      boundFor: () => ({ requested: 0, minimum: 0, maximum: 0 }),
      capWithin: () => null,
      defaultCapFor: () => null,
      growthFor: () => null,
      contextTokensFor: (offer) => bounds.contextTokensFor(offer),
    },
    incompatibility: (offer) => operation.incompatibility(offer),
    refine: (plan) => operation.refine?.(plan) ?? plan,
    tryAt: (offer, context) => operation.tryAt(offer, context),
    measure: (metrics, kind) => ({ ...operation.measure(metrics, kind), isFree: true }),
  };
}
