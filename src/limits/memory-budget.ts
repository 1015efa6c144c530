import { totalmem } from 'node:os';
import { longBodiesBytesMax, replyBytesMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';

/** How soon a full budget may have free memory again. */
const retryAfterSeconds = 5;

/** Divides a resource that running requests use, such as memory, among all tenants. */
export class FairShareBudget {
  #bytesMax: number;
  readonly #rejection: string;
  #bytes = 0;
  readonly #bytesByTenant = new Map<string, number>();

  /** `rejection` is the error message when the budget is full. */
  constructor(bytesMax: number, rejection: string) {
    this.#bytesMax = bytesMax;
    this.#rejection = rejection;
  }

  /** Raises the limit. Does nothing if it is already higher. */
  raise(bytesMax: number): void {
    this.#bytesMax = Math.max(this.#bytesMax, bytesMax);
  }

  /** Opens a reservation for one request. */
  openReservation(tenantId: string): MemoryReservation {
    return new MemoryReservation(this, tenantId);
  }

  /**
   * Reserves more bytes. A tenant's total can't exceed what then remains for all others, so that a
   * tenant with many or slow requests can't block the others. Throws 503.
   */
  reserve(tenantId: string, bytes: number): void {
    const own = (this.#bytesByTenant.get(tenantId) ?? 0) + bytes;
    if (own > this.#bytesMax - this.#bytes - bytes) {
      throw new GatewayError('service_unavailable', this.#rejection, { retryAfterSeconds });
    }
    this.#bytes += bytes;
    this.#bytesByTenant.set(tenantId, own);
  }

  release(tenantId: string, bytes: number): void {
    const remaining = (this.#bytesByTenant.get(tenantId) ?? 0) - bytes;
    this.#bytes -= bytes;
    if (remaining > 0) this.#bytesByTenant.set(tenantId, remaining);
    else this.#bytesByTenant.delete(tenantId);
  }
}

/**
 * The fraction of a process's memory that long request bodies may use. Long answers may use the
 * same amount. In measurements, a request took up to 4 times the size of its body and answer: the
 * bytes, their text, the parsed values, and the bytes that are sent.
 */
const longTextsFraction = 1 / 8;

function machineBudget(
  content: 'requests' | 'responses',
  workerCount: number,
  bytesMax = Number.POSITIVE_INFINITY,
): FairShareBudget {
  const memory = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  const message = `The gateway is handling too many large ${content}. Try again shortly.`;
  // The worker processes of a machine share its memory.
  const share = (memory / workerCount) * longTextsFraction;
  return new FairShareBudget(Math.min(share, bytesMax), message);
}

export function bodyMemoryBudgetFor(workerCount: number): FairShareBudget {
  return machineBudget('requests', workerCount, longBodiesBytesMax);
}

/**
 * Returns the budget for long answers. However little memory there is, the budget admits one
 * request with an answer of the maximum size, or one embeddings request with its several answers.
 */
export function answerMemoryBudgetFor(workerCount: number): FairShareBudget {
  const budget = machineBudget('responses', workerCount);
  budget.raise(3 * replyBytesMax);
  return budget;
}

/** Opens a reservation that is released with the request's slot. */
export function reserveForRequest(
  request: {
    readonly caller: { readonly tenantId: string };
    releaseSlot: (() => void) | undefined;
  },
  memoryBudget: FairShareBudget,
): MemoryReservation {
  const reservation = memoryBudget.openReservation(request.caller.tenantId);
  const { releaseSlot } = request;
  request.releaseSlot = () => {
    releaseSlot?.();
    reservation.release();
  };
  return reservation;
}

/** The bytes that one request has reserved. */
export class MemoryReservation {
  readonly #memoryBudget: FairShareBudget;
  readonly #tenantId: string;
  #bytes = 0;

  constructor(memoryBudget: FairShareBudget, tenantId: string) {
    this.#memoryBudget = memoryBudget;
    this.#tenantId = tenantId;
  }

  reserve(bytes: number): void {
    this.#memoryBudget.reserve(this.#tenantId, bytes);
    this.#bytes += bytes;
  }

  /** Releases all reserved bytes. Can be called repeatedly. */
  release(): void {
    this.#memoryBudget.release(this.#tenantId, this.#bytes);
    this.#bytes = 0;
  }
}
