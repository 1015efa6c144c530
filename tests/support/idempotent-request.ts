/** A request with an idempotency key, for gateways that crash, freeze, or lose their store. */
import { isObject } from '../../src/core/json.ts';
import { chatAnswer, type FakeUpstream } from './fake-upstream.ts';
import type { Answer, GatewayOptions } from './gateway.ts';
import { queryPostgres } from './postgres.ts';

/** The initial credits of each tenant. */
export const credits = 1_000_000;

/** Each input and output token costs 1 credit. */
export const answer = chatAnswer('One two three', { usage: { prompt: 40, completion: 5 } });
export const answerCost = 45;

export const body = { model: 'test/chat', messages: [{ role: 'user', content: 'Count.' }] };
export const headers = { 'idempotency-key': 'order-7' };

export function optionsFor(
  upstream: FakeUpstream,
  env: Readonly<Record<string, string>> = {},
): GatewayOptions {
  return {
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': {} } } },
    env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits), ...env },
  };
}

/** Gateways that share a store need the same secret key to decrypt each other's data. */
export function sharedStoreEnv(database: string): Readonly<Record<string, string>> {
  return {
    DATABASE_URL: database,
    TOLLGATE_SECRET_KEY: 'the same secret on all of the machines',
  };
}

/** Ends the leases of all running requests, so that tests don't wait 30 seconds. */
export async function endLeases(database: string): Promise<void> {
  await queryPostgres(database, 'update idempotency_claims set expires_at = 0 where is_done = 0');
}

export function textOf({ body: { choices } }: Answer): unknown {
  const [choice] = Array.isArray(choices) ? choices : [];
  return isObject(choice) && isObject(choice.message) ? choice.message.content : undefined;
}
