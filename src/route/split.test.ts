import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { noPreferences, type RoutePreferences } from '../core/request-info.ts';
import { Catalog } from './catalog.ts';
import { Health } from './health.ts';
import { plan } from './plan.ts';

const names = ['north', 'east', 'idle', 'spare'];
const providers = new Map(names.map((name) => [name, providerNamed(name)]));

interface Planned {
  readonly user?: string;
  readonly tenant?: string;
  readonly preferences?: Partial<RoutePreferences>;
  /** Absent for a preview. */
  random?(): number;
}

/** A model whose requests are split 70 to 30, and a gateway that plans for it. */
function split() {
  const model = modelAt('acme/a', [
    { provider: 'north', weight: 70, prompt: '2' },
    { provider: 'east', weight: 30, prompt: '1' },
    { provider: 'idle', weight: 0, prompt: '0.1' },
    { provider: 'spare', priority: 1 },
  ]);
  const catalog = new Catalog([model], providers);
  const health = new Health();
  const planned = ({ user, tenant = 't', preferences, random }: Planned = {}) => {
    const caller = callerOf(tenant);
    const request = {
      ...{ models: ['acme/a'], parameters: [], user: user ?? null },
      preferences: preferences ? { ...noPreferences, ...preferences } : noPreferences,
    };
    const operation = { incompatibility: () => null };
    const session = { caller, operation: { request } };
    const context = { catalog, health, operation, session, supports: () => true };
    const offers = plan(request, caller, { ...context, ...(random && { random }) });
    return offers.map(({ provider }) => provider.name);
  };
  return { planned, health, offers: catalog.offers('acme/a') };
}

/** Returns a source of 32-bit numbers (mulberry32) that repeats for each seed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

function shareOf(name: string, first: readonly (string | undefined)[]): number {
  return first.filter((other) => other === name).length / first.length;
}

describe('endpoint weights', () => {
  test('split 10,000 requests 70 to 30 within 2%, and send the rest to the other one', () => {
    const { planned } = split();
    for (const seed of [1, 2, 3]) {
      const random = seeded(seed);
      const plans = Array.from({ length: 10_000 }, () => planned({ random }));
      const share = shareOf(
        'north',
        plans.map(([first]) => first),
      );
      expect(Math.abs(share - 0.7)).toBeLessThan(0.02);
      const orders = new Set(plans.map((names) => names.join()));
      expect(orders).toEqual(new Set(['north,east,spare', 'east,north,spare']));
    }
  });

  test('keep each session at one endpoint until it fails, and return when it is available', () => {
    const { planned, health, offers } = split();
    const users = Array.from({ length: 10_000 }, (_, i) => `user ${i}`);
    const random = seeded(4);
    const firstOf = (user: string) => planned({ user, random })[0];
    const before = users.map(firstOf);
    expect(users.map(firstOf)).toEqual(before);
    expect(users.map((user) => planned({ user })[0])).toEqual(before);
    expect(Math.abs(shareOf('north', before) - 0.7)).toBeLessThan(0.02);
    const [north] = offers;
    if (!north) throw new Error('There is no offer.');
    for (let i = 0; i < 5; i++) health.failed(north);
    expect(new Set(users.map(firstOf))).toEqual(new Set(['east']));
    health.succeeded(north, 1);
    expect(users.map(firstOf)).toEqual(before);
  });

  test('distribute the sessions of each tenant independently of their names', () => {
    const { planned } = split();
    const users = Array.from({ length: 1_000 }, (_, i) => `user ${i}`);
    const isSame = users.map(
      (user) => planned({ user, tenant: 'a' })[0] === planned({ user, tenant: 'b' })[0],
    );
    const same = isSame.filter(Boolean).length / users.length;
    // Two independent choices agree in 0.7² + 0.3² of all cases.
    expect(Math.abs(same - 0.58)).toBeLessThan(0.06);
  });

  test('give way to the sort order and to the order of providers that a client requests', () => {
    const { planned } = split();
    const random = seeded(5);
    for (let i = 0; i < 20; i++) {
      const byPrice = planned({ user: `${i}`, preferences: { sort: 'price' }, random });
      expect(byPrice.slice(0, 2)).toEqual(['east', 'spare']);
      const listed = planned({ preferences: { order: ['spare', 'east'] }, random });
      expect(listed).toEqual(['spare', 'east', 'north']);
    }
  });

  test('of 0 exclude an endpoint unless the request names its provider', () => {
    const { planned } = split();
    expect(planned()).toEqual(['north', 'east', 'spare']);
    expect(planned({ preferences: { sort: 'price' } })).not.toContain('idle');
    expect(planned({ preferences: { only: ['idle'] } })).toEqual(['idle']);
    expect(planned({ preferences: { order: ['idle'] } })[0]).toBe('idle');
    expect(() => planned({ preferences: { ignore: ['north', 'east', 'spare'] } })).toThrow(
      'Requests for this model reach idle only if they name it in provider.only or provider.order.',
    );
  });
});
