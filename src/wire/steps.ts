import { type Call, droppedHeader, type Errand, identityOf } from '../call.ts';
import type { Config } from '../config/config.ts';
import { droppedNamesMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { type RoomShare, type SharedRoom, shareUntilLeft } from '../core/shared-room.ts';
import type { Watch } from '../core/watch.ts';
import { withoutSuffix } from '../dialects/ask/search-wish.ts';
import { supportsParameter } from '../dialects/parameters.ts';
import type { Steps } from '../gateway.ts';
import type { Admission } from '../limits/admit.ts';
import { recall } from '../recall.ts';
import { reserve } from '../reserve.ts';
import { keepEntitled } from '../route/capability.ts';
import type { CallableModels, Catalogue, CatalogueOf, Offer } from '../route/catalogue.ts';
import type { Health } from '../route/health.ts';
import { plan } from '../route/plan.ts';
import { withProbe } from '../route/with-probe.ts';
import { settle } from '../settle.ts';
import { openFirst } from '../upstream/fallback.ts';
import type { AddressPolicy } from '../upstream/guard/address-guard.ts';
import { createGuardedFetch, type GuardedFetch } from '../upstream/guard/guarded-fetch.ts';
import { type CheckAddress, checkBy } from '../upstream/guard/user-address.ts';
import { refuseInnerAddresses } from '../upstream/inline-images.ts';
import type { Link } from '../upstream/link.ts';
import type { Lasting } from './lasting.ts';

/** The parts that last, and those that a reload makes again. */
export interface StepParts extends Lasting {
  readonly config: Config;
  readonly catalogue: Catalogue;
  readonly catalogueOf: CatalogueOf;
  readonly admission: Admission;
  /** Which of the addresses that users give may be called. */
  readonly addressPolicy: AddressPolicy;
}

/** The steps of gateway.ts, each tied to the parts it works on. */
export function makeSteps(parts: StepParts): Steps {
  const { config, catalogue, catalogueOf, admission, books, cache, idempotency } = parts;
  const { health, telemetry, watch, answerRoom, addressPolicy, strangeNames } = parts;
  const surroundings = {
    watch,
    telemetry,
    answerRoom,
    addressPolicy,
    fetchGuarded: createGuardedFetch(addressPolicy),
    checkAddress: checkBy(addressPolicy),
  };
  const money = {
    creditsPerUsd: config.creditsPerUsd,
    hold: books.hold.bind(books),
    dispatched: books.dispatched.bind(books),
    keep: books.keep.bind(books),
    keepWith: books.keepWith.bind(books),
    nameOf: (asked: string, tenantId: string, answered: string | null) =>
      asked === '' || catalogue.model(withoutSuffix(asked))
        ? asked
        : strangeNames.keptAs(tenantId, asked, answered ?? undefined),
    observeSpeed: health.observeSpeed.bind(health),
    observeEnd: health.ended.bind(health),
    countTokens: admission.countTokens.bind(admission),
  };
  const recalling = {
    cache,
    idempotency,
    cacheMode: config.cache.mode,
    isOffered: (model: string, provider: string) =>
      catalogue.everyOffer(model).some((offer) => offer.provider.name === provider),
  };
  return {
    countRequest(call) {
      telemetry.begun(call);
      return admission.countRequest(call.caller, call.headers);
    },
    enter: ({ caller }) => admission.enter(caller),
    recall: (call, errand) => recall(call, errand, recalling),
    plan({ caller }, errand) {
      refuseInnerAddresses(errand.ask.addresses, addressPolicy);
      const callable = catalogueOf(caller.tenantId);
      return callable instanceof Promise
        ? callable.then((it) => planIn(it, caller, errand, health))
        : planIn(callable, caller, errand, health);
    },
    reserve: (call, errand, offers) => reserve(call, errand, offers, money),
    openFirst(call, errand, reservation) {
      let link: Link | undefined;
      const tryAt = (offer: Offer) => {
        link?.leaveRoom();
        const affordable = reservation.capFor(offer);
        call.memory?.tape.noteCap(affordable !== null);
        const cap = affordable ?? reservation.usualCapFor(offer);
        link = new CallLink(call, offer, cap, surroundings);
        return errand.tryAt(offer, link);
      };
      const offers = withProbe(reservation.offers, errand.ask.preferences, health);
      return openFirst(offers, tryAt, health, call);
    },
    settle: (call, ending) => settle(call, ending, money),
    tellLate: ({ requestId }, error) => telemetry.tellLate(requestId, error),
  };
}

function planIn(
  catalogue: CallableModels,
  caller: Caller,
  errand: Errand,
  health: Health,
): readonly Offer[] {
  const around = { catalogue, health, errand, supports: supportsParameter };
  const entitled = keepEntitled(plan(errand.ask, caller, around), errand.ask);
  return errand.refine?.(entitled) ?? entitled;
}

type LinkSurroundings = Pick<Link, 'fetchGuarded' | 'checkAddress' | 'addressPolicy'> &
  Pick<Lasting, 'watch' | 'telemetry' | 'answerRoom'>;

const plainName = /^[\w.[\]-]{1,64}$/;

/** One try at one offer, tied to the call it is made for. */
class CallLink implements Link {
  readonly identity: Link['identity'];
  readonly outputTokensMax: number | null;
  readonly client: AbortSignal;
  readonly watch: Watch;
  readonly tape: Link['tape'];
  readonly fetchGuarded: GuardedFetch;
  readonly traceparent: string | undefined;
  readonly checkAddress: CheckAddress;
  readonly addressPolicy: AddressPolicy;
  readonly #call: Call;
  readonly #answerRoom: SharedRoom;
  #share: RoomShare | undefined;

  constructor(call: Call, offer: Offer, cap: number | null, around: LinkSurroundings) {
    this.#call = call;
    this.#answerRoom = around.answerRoom;
    const { id, model, created } = identityOf(call, offer.model.id);
    this.identity = { id, model, created, provider: offer.provider.name };
    this.outputTokensMax = cap;
    this.client = call.client;
    this.watch = around.watch;
    this.tape = call.memory?.tape;
    this.fetchGuarded = around.fetchGuarded;
    this.checkAddress = around.checkAddress;
    this.addressPolicy = around.addressPolicy;
    this.traceparent = around.telemetry.attempting(call);
  }

  tellDropped(parameters: readonly string[]): void {
    const { headers } = this.#call;
    if (parameters.length === 0 && !(droppedHeader in headers)) return;
    // A client names its own fields, and not every name can stand in a header.
    const shown = parameters.filter((one) => plainName.test(one)).slice(0, droppedNamesMax);
    if (shown.length > 0) headers[droppedHeader] = shown.join(', ');
    else delete headers[droppedHeader];
    this.tape?.noteDropped(headers[droppedHeader]);
  }

  claimRoom(bytes: number): void {
    // Of several requests made at once for a call, the first to fail ends it; others come late.
    if (!this.#call.leave) throw new GatewayError('upstream_error', 'The request has ended.');
    this.#share ??= shareUntilLeft(this.#call, this.#answerRoom);
    this.#share.claim(bytes);
  }

  leaveRoom(): void {
    this.#share?.giveBack();
  }

  async extendHold(credits: number): Promise<boolean> {
    // Without the store a search is not made; the answer goes on without it.
    const more = await this.#call.hold?.extend(credits).catch(() => null);
    return more !== undefined && more !== null;
  }

  async reach(enough: number): Promise<number> {
    return (await this.#call.hold?.reach(enough)) ?? 0;
  }
}
