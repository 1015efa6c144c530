import { kindByPrefix, readPresentedKey } from '../auth/api-key.ts';
import { signInFailuresPerMinuteMax } from '../core/bounds.ts';
import {
  type AddressRange,
  addressBytes,
  addressRange,
  isWithin,
} from '../core/network-address.ts';
import type { Log } from '../telemetry/log.ts';

/** A change by a management call, for the audit log. */
export interface AuditedChange {
  readonly action:
    | `key.${'create' | 'update' | 'rotate' | 'delete'}`
    | 'webhook_secret.rotate'
    | `provider_key.${'set' | 'delete'}`
    | `tenant.${'create' | 'update'}`
    | 'credits.change';
  readonly tenant: string;
  /** What was changed: a key ID, a provider, or an entry of credits. */
  readonly target?: string;
  /** The names of the fields that the request set, separated by commas. */
  readonly fields?: string;
  readonly amount?: number;
}

/** The request that an event is about. */
interface AuditedRequest {
  readonly request: Request;
  readonly requestId: string;
  readonly path: string;
  /** Who made the request, once it is authenticated. */
  readonly actor: string;
}

const minuteMs = 60_000;

/** Writes changes and failed sign-ins to the log, with who made the request and from where. */
export class AuditLog {
  readonly #log: Log;
  #trusted: readonly AddressRange[] = [];
  #minute = 0;
  #failures = 0;

  constructor(log: Log, trustedProxies: readonly string[]) {
    this.#log = log;
    this.trust(trustedProxies);
  }

  /** Replaces the trusted proxies: addresses and ranges. */
  trust(proxies: readonly string[]): void {
    this.#trusted = proxies.map(addressRange).filter((range) => range !== null);
  }

  /** `peer` is the address at the other end of the connection. */
  changed(exchange: AuditedRequest, change: AuditedChange, peer: string | undefined): void {
    this.#write({ actor: exchange.actor, ...change }, exchange, peer);
  }

  /**
   * Logs a rejected key. Requests without a key aren't attempts to sign in. Someone may try
   * millions of keys, so the lines are bounded, and `unlogged` counts the others.
   */
  signInFailed(exchange: AuditedRequest, peer: string | undefined): void {
    const actor = claimedActor(exchange.request.headers);
    if (actor === undefined) return;
    const minute = Math.floor(performance.now() / minuteMs);
    const unlogged = Math.max(0, this.#failures - signInFailuresPerMinuteMax);
    const isNewMinute = minute !== this.#minute;
    this.#minute = minute;
    this.#failures = isNewMinute ? 1 : this.#failures + 1;
    if (this.#failures > signInFailuresPerMinuteMax) return;
    const earlier = isNewMinute && unlogged > 0 ? { unlogged } : {};
    this.#write({ actor, action: 'sign_in.fail', ...earlier }, exchange, peer);
  }

  /** Returns the address of the client, which may be behind trusted proxies. */
  addressOf({ headers }: Request, peer: string | undefined): string {
    return clientAddress(peer ?? '', headers.get('x-forwarded-for'), this.#trusted);
  }

  #write(
    fields: Readonly<Record<string, string | number>>,
    { request, requestId, path }: AuditedRequest,
    peer: string | undefined,
  ): void {
    const address = this.addressOf(request, peer);
    this.#log.info('audit', { ...fields, address, path, request_id: requestId });
  }
}

/** Returns the public ID in a key that was rejected. Never contains a part of a secret. */
function claimedActor(headers: Headers): string | undefined {
  let key: string;
  try {
    key = readPresentedKey(headers);
  } catch {
    return undefined;
  }
  if (kindByPrefix(key) === 'admin') return 'admin';
  const [, id] = /^sk-(?:tg|mgmt)-([0-9a-z]{16})-/.exec(key) ?? [];
  return id === undefined ? 'unknown' : `key_${id}`;
}

/**
 * Returns the address of the client. Each proxy appends the address that it received the request
 * from, and a client can send anything before that. So the client is the last address that isn't a
 * trusted proxy's.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | null,
  trusted: readonly AddressRange[],
): string {
  let address = plainAddress(peer);
  const hops = forwardedFor === null ? [] : forwardedFor.split(',');
  for (const hop of hops.toReversed()) {
    const bytes = addressBytes(address);
    if (bytes === null || !isWithin(bytes, trusted)) return address;
    const next = plainAddress(hop.trim());
    if (addressBytes(next) === null) return address;
    address = next;
  }
  return address;
}

/** Removes a port, and the prefix of an IPv4 address on an IPv6 socket. */
function plainAddress(text: string): string {
  const [, bracketed, dotted] = /^(?:\[(.+)\](?::\d+)?|([\d.]+):\d+)$/.exec(text) ?? [];
  return (bracketed ?? dotted ?? text).replace(/^::ffff:(?=[\d.]+$)/i, '');
}
