import { GatewayError } from './errors.ts';

/** When a room that is full may have some space again. */
const retryAfterSeconds = 5;

/** A bound on the bytes of running requests, of all tenants together. */
export class SharedRoom {
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
  widen(bytesMax: number): void {
    this.#bytesMax = Math.max(this.#bytesMax, bytesMax);
  }

  /** For one request. */
  share(tenantId: string): RoomShare {
    return new RoomShare(this, tenantId);
  }

  /**
   * Makes room for so many more bytes. No tenant may have more than what is left for all others:
   * one that sends much, or slowly, shuts nobody out. 503
   */
  claim(tenantId: string, bytes: number): void {
    const own = (this.#bytesByTenant.get(tenantId) ?? 0) + bytes;
    if (own > this.#bytesMax - this.#bytes - bytes) {
      throw new GatewayError('service_unavailable', this.#refusal, { retryAfterSeconds });
    }
    this.#bytes += bytes;
    this.#bytesByTenant.set(tenantId, own);
  }

  giveBack(tenantId: string, bytes: number): void {
    const left = (this.#bytesByTenant.get(tenantId) ?? 0) - bytes;
    this.#bytes -= bytes;
    if (left > 0) this.#bytesByTenant.set(tenantId, left);
    else this.#bytesByTenant.delete(tenantId);
  }
}

/** A share that is given back when its request leaves. */
export function shareUntilLeft(
  request: { readonly caller: { readonly tenantId: string }; leave: (() => void) | undefined },
  room: SharedRoom,
): RoomShare {
  const share = room.share(request.caller.tenantId);
  const { leave } = request;
  request.leave = () => {
    leave?.();
    share.giveBack();
  };
  return share;
}

/** What one request takes of a room. */
export class RoomShare {
  readonly #room: SharedRoom;
  readonly #tenantId: string;
  #bytes = 0;

  constructor(room: SharedRoom, tenantId: string) {
    this.#room = room;
    this.#tenantId = tenantId;
  }

  claim(bytes: number): void {
    this.#room.claim(this.#tenantId, bytes);
    this.#bytes += bytes;
  }

  /** All of it. Safe to call again. */
  giveBack(): void {
    this.#room.giveBack(this.#tenantId, this.#bytes);
    this.#bytes = 0;
  }
}
