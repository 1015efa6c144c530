import { totalmem } from 'node:os';
import { replyBytesMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';

/** When a room that is full may have some space again. */
const retryAfterSeconds = 5;

/** A bound on the bytes of running requests, of all tenants together. */
export class MemoryBudget {
  #bytesMax: number;
  readonly #refusal: string;
  #bytes = 0;
  readonly #bytesByTenant = new Map<string, number>();

  /** `refusal` is what those hear for whom there is no room. */
  constructor(bytesMax: number, refusal: string) {
    this.#bytesMax = bytesMax;
    this.#refusal = refusal;
  }

  /** A room that is larger stays so. */
  raise(bytesMax: number): void {
    this.#bytesMax = Math.max(this.#bytesMax, bytesMax);
  }

  /** For one request. */
  openReservation(tenantId: string): MemoryReservation {
    return new MemoryReservation(this, tenantId);
  }

  /**
   * Makes room for so many more bytes. No tenant may have more than what is left for all others:
   * one that sends much, or slowly, shuts nobody out. 503
   */
  reserve(tenantId: string, bytes: number): void {
    const own = (this.#bytesByTenant.get(tenantId) ?? 0) + bytes;
    if (own > this.#bytesMax - this.#bytes - bytes) {
      throw new GatewayError('service_unavailable', this.#refusal, { retryAfterSeconds });
    }
    this.#bytes += bytes;
    this.#bytesByTenant.set(tenantId, own);
  }

  release(tenantId: string, bytes: number): void {
    const left = (this.#bytesByTenant.get(tenantId) ?? 0) - bytes;
    this.#bytes -= bytes;
    if (left > 0) this.#bytesByTenant.set(tenantId, left);
    else this.#bytesByTenant.delete(tenantId);
  }
}

/**
 * The fraction of a process's memory for the long bodies of its running requests. Their long answers
 * get the same again. Measured, a request takes up to 4 times the size of its body and of its answer:
 * the bytes, their text, the parsed values and what is sent.
 */
const longTextsFraction = 1 / 8;

function machineBudget(content: 'requests' | 'answers', workerCount: number): MemoryBudget {
  const memory = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  const message = `This gateway has too many large ${content} in progress; try again shortly.`;
  // The worker processes of a machine share its memory.
  return new MemoryBudget((memory / workerCount) * longTextsFraction, message);
}

export function bodyMemoryBudgetFor(workerCount: number): MemoryBudget {
  return machineBudget('requests', workerCount);
}

/**
 * Returns the budget for long answers. However little memory there is, it admits one request with
 * an answer of the maximum size, or with the several answers of an embeddings request.
 */
export function answerMemoryBudgetFor(workerCount: number): MemoryBudget {
  const budget = machineBudget('answers', workerCount);
  budget.raise(3 * replyBytesMax);
  return budget;
}

/** A share that is given back when its request leaves. */
export function reserveForRequest(
  request: {
    readonly caller: { readonly tenantId: string };
    releaseSlot: (() => void) | undefined;
  },
  memoryBudget: MemoryBudget,
): MemoryReservation {
  const reservation = memoryBudget.openReservation(request.caller.tenantId);
  const { releaseSlot } = request;
  request.releaseSlot = () => {
    releaseSlot?.();
    reservation.release();
  };
  return reservation;
}

/** What one request takes of a room. */
export class MemoryReservation {
  readonly #memoryBudget: MemoryBudget;
  readonly #tenantId: string;
  #bytes = 0;

  constructor(memoryBudget: MemoryBudget, tenantId: string) {
    this.#memoryBudget = memoryBudget;
    this.#tenantId = tenantId;
  }

  reserve(bytes: number): void {
    this.#memoryBudget.reserve(this.#tenantId, bytes);
    this.#bytes += bytes;
  }

  /** All of it. Safe to call again. */
  release(): void {
    this.#memoryBudget.release(this.#tenantId, this.#bytes);
    this.#bytes = 0;
  }
}
