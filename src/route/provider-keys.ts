import type { Provider, ProviderKey } from '../config/config.ts';
import type { Offer, OfferKey } from './catalog.ts';
import { type KeyUsage, limitMs } from './provider-key-usage.ts';
import { type SessionSource, sessionOf, stickyScore } from './stickiness.ts';

// Distributes requests over the keys of a provider. Each process decides by what it has seen. Only
// the operator's limits are shared, if there are shared counts.

/** The wait after a 429 that names none. */
const waitMsDefault = 5_000;
/** After this time, one request tries a key again that the provider rejected. */
const setAsideMsFirst = 60_000;
const setAsideMsMax = 600_000;
/** How long other requests avoid a rejected key while one request tries it. */
const probeMs = 30_000;

/** A failed attempt, as its key sees it. */
interface KeyFailure {
  readonly kind: string;
  readonly status: number | null;
  /** The provider's message, without secrets. */
  readonly message: string;
  readonly retryAfterSeconds: number | null;
}

interface SetAside {
  status: number | null;
  message: string;
  /** When one request may try the key again. */
  until: number;
  ms: number;
  isProbed: boolean;
}

interface KeyState extends KeyUsage {
  key: ProviderKey;
  /** Grows by the weight with each choice and falls by the sum of weights when chosen. */
  turn: number;
  /** Until when the key is rate limited, by upstream model. */
  readonly waits: Map<string, number>;
  setAside: SetAside | null;
}

/** Counts the requests of keys in all processes. */
interface SharedKeyLimits {
  /** Returns undefined if this process has to count for itself. */
  enter(
    key: ProviderKey,
  ): Promise<{ isAllowed: true; leave(): void } | { isAllowed: false; waitMs: number }> | undefined;
}

/** A key as the operator sees it. */
export interface KeyStatus {
  readonly key: ProviderKey;
  readonly state: 'available' | 'waiting' | 'set_aside' | 'disabled';
  readonly running: number;
  /** Null if the key is available or disabled. */
  readonly retryAfterSeconds: number | null;
  /** Why the key is set aside. */
  readonly status: number | null;
  readonly message: string | null;
}

/** Reports keys that a provider rejects, and those that it accepts again. */
interface KeyReporter {
  keySetAside(provider: string, key: string, failure: KeyFailure): void;
  keyRestored(provider: string, key: string): void;
}

export class ProviderKeys {
  readonly #states = new Map<string, KeyState>();
  readonly #reporter: KeyReporter;
  readonly #now: () => number;
  readonly #limits: SharedKeyLimits | undefined;

  constructor(
    reporter: KeyReporter,
    limits?: SharedKeyLimits,
    now: () => number = () => performance.now(),
  ) {
    this.#reporter = reporter;
    this.#limits = limits;
    this.#now = now;
  }

  /**
   * Called with each new configuration. The next requests try the rejected keys again. Returns the
   * providers with each of their keys.
   */
  configure(providers: Iterable<Provider>): readonly Provider[] {
    const names = new Set<string>();
    const withKeys: Provider[] = [];
    for (const provider of providers) {
      withKeys.push(provider);
      for (const key of provider.keys ?? []) {
        withKeys.push(key.provider);
        names.add(nameOf(key));
        const state = this.#states.get(nameOf(key));
        if (!state) continue;
        if (textOf(state.key) !== textOf(key)) this.#states.delete(nameOf(key));
        else if (state.setAside) state.setAside.until = this.#now();
        state.key = key;
      }
    }
    for (const name of this.#states.keys()) if (!names.has(name)) this.#states.delete(name);
    return withKeys;
  }

  /** Returns the keys to try at an offer for this request. */
  rotationOf(offer: Offer, request: SessionSource): KeyRotation {
    return new KeyRotation(this, offer, sessionOf(request, offer.model.stickiness));
  }

  /**
   * Chooses a key that hasn't been tried, by session or by weight. If the provider has rejected all
   * keys, returns the one that is tried next anyway. Returns undefined if the keys left are rate
   * limited.
   */
  take(
    keys: readonly OfferKey[],
    model: string,
    session: number | null,
    tried: readonly OfferKey[],
  ): OfferKey | undefined {
    const now = this.#now();
    const untried = keys.filter((key) => !tried.includes(key) && !isOver(key));
    // A replaced key is used only if no other key can be.
    const current = untried.filter(({ key }) => key.until === null);
    const best =
      this.#choose(current, model, session, now) ??
      this.#choose(untried, model, session, now) ??
      (tried.length === 0 ? this.#leastRejected(untried, model, now) : undefined);
    if (best) this.#start(this.#stateOf(best.key), now);
    return best;
  }

  #choose(
    keys: readonly OfferKey[],
    model: string,
    session: number | null,
    now: number,
  ): OfferKey | undefined {
    let best: OfferKey | undefined;
    let highest = Number.NEGATIVE_INFINITY;
    let sum = 0;
    for (const candidate of keys) {
      const { key } = candidate;
      const state = this.#stateOf(key);
      if (waitMs(state, model, now) > 0) continue;
      if (state.setAside && state.setAside.until > now) continue;
      let score = state.turn + key.weight;
      if (session === null) {
        sum += key.weight;
        state.turn = score;
      } else score = stickyScore(session, nameOf(key), key.weight);
      if (score <= highest) continue;
      best = candidate;
      highest = score;
    }
    if (best) this.#stateOf(best.key).turn -= sum;
    return best;
  }

  /** Returns a rejected key, unless others are only rate limited. */
  #leastRejected(keys: readonly OfferKey[], model: string, now: number): OfferKey | undefined {
    if (this.waitSeconds(keys, model, now) !== null) return undefined;
    const untilOf = ({ key }: OfferKey) => this.#stateOf(key).setAside?.until ?? 0;
    return keys.toSorted((a, b) => untilOf(a) - untilOf(b))[0];
  }

  #start(state: KeyState, now: number): void {
    state.running += 1;
    state.requests += 1;
    const { setAside } = state;
    if (!setAside || setAside.until > now) return;
    setAside.isProbed = true;
    setAside.until = now + probeMs;
  }

  /**
   * Counts the request of a taken key in all processes. The promise has a function to call at its
   * end, or null if the key is at its limit. Returns undefined without shared counts.
   */
  enterShared({ key }: OfferKey): Promise<(() => void) | null> | undefined {
    return this.#limits?.enter(key)?.then((entered) => {
      if (entered.isAllowed) return entered.leave;
      this.#stateOf(key).fullUntil = this.#now() + entered.waitMs;
      return null;
    });
  }

  /** Called when the request of a taken key has ended. */
  release({ key }: OfferKey): void {
    const state = this.#stateOf(key);
    state.running = Math.max(0, state.running - 1);
  }

  accepted({ key }: OfferKey): void {
    const state = this.#stateOf(key);
    if (!state.setAside) return;
    state.setAside = null;
    this.#reporter.keyRestored(key.provider.name, key.name);
  }

  /** Records a failed attempt. Returns whether another key may succeed. */
  failed({ key }: OfferKey, model: string, failure: KeyFailure): boolean {
    const state = this.#stateOf(key);
    const { kind, status, message, retryAfterSeconds } = failure;
    const now = this.#now();
    const { setAside } = state;
    if (kind === 'credential' || kind === 'quota') {
      if (!setAside) {
        const until = now + setAsideMsFirst;
        state.setAside = { status, message, until, ms: setAsideMsFirst, isProbed: false };
        this.#reporter.keySetAside(key.provider.name, key.name, failure);
      } else if (setAside.isProbed) {
        const ms = Math.min(setAside.ms * 2, setAsideMsMax);
        state.setAside = { status, message, until: now + ms, ms, isProbed: false };
      }
      return true;
    }
    // The attempt didn't show whether the provider accepts the key, so the next request tries it.
    if (setAside?.isProbed) {
      setAside.isProbed = false;
      setAside.until = now;
    }
    if (kind !== 'rate_limited') return false;
    const ms = retryAfterSeconds === null ? waitMsDefault : retryAfterSeconds * 1000;
    // A provider may ask for a day by mistake, and all keys may get the same answer.
    state.waits.set(model, now + Math.min(ms, setAsideMsMax));
    return true;
  }

  /** Returns the shortest wait of keys that are only rate limited, or null if there are none. */
  waitSeconds(keys: readonly OfferKey[], model: string, now = this.#now()): number | null {
    const waits = keys.flatMap(({ key }) => {
      if (isOver({ key })) return [];
      const state = this.#stateOf(key);
      const ms = state.setAside ? 0 : waitMs(state, model, now);
      return ms > 0 ? [ms] : [];
    });
    return waits.length > 0 ? Math.min(...waits) / 1000 : null;
  }

  statusesOf({ keys = [] }: Provider): readonly KeyStatus[] {
    return keys.map((key) => this.#statusOf(key, this.#now()));
  }

  #statusOf(key: ProviderKey, now: number): KeyStatus {
    const { running, setAside, waits } = this.#stateOf(key);
    const none = { key, running, retryAfterSeconds: null, status: null, message: null };
    if (key.isDisabled || isOver({ key })) return { ...none, state: 'disabled' };
    if (setAside) {
      const { status, message, until } = setAside;
      return {
        ...none,
        state: 'set_aside',
        retryAfterSeconds: inSeconds(until - now),
        status,
        message,
      };
    }
    const longest = Math.max(0, ...[...waits.values()].map((until) => until - now));
    const ms = longest || limitMs(this.#stateOf(key), now);
    if (ms === 0) return { ...none, state: 'available' };
    return { ...none, state: 'waiting', retryAfterSeconds: inSeconds(ms) };
  }

  #stateOf(key: ProviderKey): KeyState {
    const name = nameOf(key);
    const known = this.#states.get(name);
    if (known) return known;
    const counts = { turn: 0, running: 0, minute: 0, requests: 0, requestsBefore: 0 };
    const state: KeyState = {
      ...{ key, ...counts, waits: new Map(), fullUntil: 0, setAside: null },
    };
    this.#states.set(name, state);
    return state;
  }
}

/** Returns whether a replaced key must not be used any more. */
function isOver({ key: { until } }: Pick<OfferKey, 'key'>): boolean {
  return until !== null && until <= Date.now();
}

function nameOf({ provider, name }: ProviderKey): string {
  return `${provider.name}\n${name}`;
}

function textOf({ provider }: ProviderKey): string | undefined {
  return provider.apiKey?.reveal();
}

function inSeconds(ms: number): number {
  return Math.max(0, Math.ceil(ms / 1000));
}

/** Returns how long the key can't be used for this model. */
function waitMs(state: KeyState, model: string, now: number): number {
  const until = state.waits.get(model) ?? 0;
  if (until > now) return until - now;
  if (until > 0) state.waits.delete(model);
  return limitMs(state, now);
}

/** The keys that one request tries at one offer. */
export class KeyRotation {
  readonly #keys: ProviderKeys;
  readonly #offer: Offer;
  readonly #session: number | null;
  readonly #tried: OfferKey[] = [];
  /** The key that the request uses now. */
  #current: OfferKey | undefined;
  /** Ends the request in the shared counts. */
  #leave: (() => void) | undefined;

  constructor(keys: ProviderKeys, offer: Offer, session: number | null) {
    this.#keys = keys;
    this.#offer = offer;
    this.#session = session;
  }

  /**
   * Takes the next key. Returns the offer with this key, or undefined if there is none. Returns a
   * promise only if the key has limits that are shared.
   */
  next(): Offer | undefined | Promise<Offer | undefined> {
    const { keys, upstreamModel } = this.#offer;
    const key = this.#keys.take(keys ?? [], upstreamModel, this.#session, this.#tried);
    if (!key) return undefined;
    this.#tried.push(key);
    this.#current = key;
    const entering = this.#keys.enterShared(key);
    if (!entering) return key.offer;
    return entering.then((leave) => {
      if (leave) {
        this.#leave = leave;
        return key.offer;
      }
      this.end();
      return this.next();
    });
  }

  /** The name of the key that was taken last. */
  get keyName(): string | undefined {
    return this.#tried.at(-1)?.key.name;
  }

  /** Records that the key answers. Returns a function to call at the end of the answer. */
  answered(): () => void {
    const key = this.#tried.at(-1);
    if (key) this.#keys.accepted(key);
    return () => this.end();
  }

  /** Records a failed attempt. Returns whether another key may succeed. */
  failed(failure: KeyFailure): boolean {
    const key = this.#tried.at(-1);
    return key !== undefined && this.#keys.failed(key, this.#offer.upstreamModel, failure);
  }

  /** Frees the key that was taken last. */
  end(): void {
    if (this.#current) this.#keys.release(this.#current);
    this.#leave?.();
    this.#current = undefined;
    this.#leave = undefined;
  }

  /** Returns the shortest wait of the keys that are only rate limited, or null. */
  waitSeconds(): number | null {
    const { keys, upstreamModel } = this.#offer;
    return this.#keys.waitSeconds(keys ?? [], upstreamModel);
  }
}
