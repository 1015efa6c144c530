import type { Watch } from '../core/watch.ts';
import type { ReplyIdentity } from '../dialects/dialect.ts';
import type { AddressPolicy } from './guard/address-guard.ts';
import type { GuardedFetch } from './guard/guarded-fetch.ts';
import type { CheckAddress } from './guard/user-address.ts';
import type { Tape } from './tape.ts';

/** What one try at one offer needs besides the request itself. */
export interface Link {
  readonly identity: ReplyIdentity;
  /** The output cap to send; null leaves the client's own. */
  readonly outputTokensMax: number | null;
  /** Aborts when the client leaves. */
  readonly client: AbortSignal;
  readonly watch: Watch;
  /** Records the answer, so that it can be given again. */
  readonly tape?: Tape | undefined;
  /** Continues the client's trace at the provider; undefined when nobody traces. */
  readonly traceparent?: string | undefined;
  readonly fetchGuarded: GuardedFetch;
  /** Called with the parameters that this offer cannot express; an empty list takes that back. */
  tellDropped(parameters: readonly string[]): void;
  /**
   * Claims room for this many more bytes of a long answer, in the memory all requests share. 503
   */
  claimRoom(bytes: number): void;
  /** Gives back the room claimed so far: what it was for has been read, or is of no use. */
  leaveRoom(): void;
  /** Sets more credits aside for the request; false when there are no more. */
  extendHold(credits: number): Promise<boolean>;
  /**
   * What the request may cost in all. Asks the store unless at least `enough` is known to be there.
   */
  reach(enough: number): Promise<number>;
  /** Checks addresses that tenants chose. */
  readonly checkAddress: CheckAddress;
  /** The policy of that check, for addresses that a provider calls instead of us. */
  readonly addressPolicy: AddressPolicy;
}
