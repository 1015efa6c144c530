/** A wallet for exactly fifty answers, asked for five hundred at once. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import { openStore } from '../../src/store/open.ts';
import { balanceOf, chargesById, discrepancies } from '../support/ledger-check.ts';
import {
  type FakeUpstreamProcess,
  gated,
  chatAnswer,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

const testMs = 240_000;
const asked = 500;
const affordable = 50;
/** One credit a word, prompts for nothing: so a hold is exactly its charge. */
const wordsEach = 10;
const price = { prompt: '0', completion: '1' };
const fee = wordsEach;

let upstream: FakeUpstreamProcess;
beforeAll(async () => {
  upstream = await startFakeUpstreamProcess();
});
afterAll(() => upstream.stop());
beforeEach(async () => {
  await upstream.reset();
  // Nobody is answered before everybody was admitted or refused.
  await upstream.script('chat', gated('all asked', 0, chatAnswer(words(wordsEach))));
});

function settings(credits: number): GatewayOptions {
  return {
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
    env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits) },
  };
}

interface Heard {
  readonly status: number;
  readonly id: string;
}

/** Half of them as streams; `key` is the one the first gateway printed unless given. */
async function askAll(gateways: readonly Gateway[], key?: string): Promise<readonly Heard[]> {
  let refused = 0;
  const asking = Array.from({ length: asked }, async (_, number) => {
    const gateway = gateways[number % gateways.length];
    if (!gateway) throw new Error('There is no gateway.');
    const messages = [{ role: 'user', content: `Number ${number}` }];
    const stream = number % 8 < 4;
    const body = { model: 'test/chat', max_tokens: wordsEach, messages, stream };
    const answer = await gateway.chat(body, key ? { key } : {});
    if (answer.status !== 200) refused += 1;
    if (refused === asked - affordable) await upstream.open('all asked');
    return { status: answer.status, id: answer.headers.get('x-request-id') ?? '' };
  });
  return Promise.all(asking);
}

async function expectExactly(heard: readonly Heard[], url: string, account: string): Promise<void> {
  const served = heard.filter(({ status }) => status === 200);
  expect(served).toHaveLength(affordable);
  expect(heard.filter(({ status }) => status === 402)).toHaveLength(asked - affordable);
  const book = await upstream.requests();
  expect(book).toHaveLength(affordable);
  const said = book.reduce((sum, { tokens }) => sum + tokens.completion, 0);
  expect(said).toBe(affordable * wordsEach);

  const { database } = await openStore(url);
  try {
    expect(await balanceOf(database, account)).toBe(0);
    expect(await discrepancies(database)).toEqual([]);
    const charges = await chargesById(database);
    expect(charges.size).toBe(asked);
    expect(served.map(({ id }) => charges.get(id))).toEqual(served.map(() => fee));
  } finally {
    await database.close();
  }
}

const inFile = (gateway: Gateway) => `sqlite:${join(gateway.dataDir, 'tollgate.db')}`;

test(
  'fifty are answered and the others get 402, to the last credit',
  async () => {
    const gateway = await startGateway(settings(affordable * fee));
    const heard = await askAll([gateway]);
    await gateway.stop();
    await expectExactly(heard, inFile(gateway), 'tenant:default');
  },
  testMs,
);

test(
  'the same with a key whose limit is fifty answers, in a wallet that has more',
  async () => {
    const gateway = await startGateway(settings(10 * asked * fee));
    const made = await gateway.manage('POST', '/api/v1/keys', {
      name: 'limited',
      limit: affordable * fee,
    });
    const key = String(made.body.key);
    const heard = await askAll([gateway], key);
    await gateway.stop();
    const { data } = made.body;
    await expectExactly(heard, inFile(gateway), `key:${isObject(data) ? data.id : ''}`);
  },
  testMs,
);

test(
  'the same with four processes on one Postgres',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const shared = settings(affordable * fee);
    const options = { ...shared, env: { ...shared.env, DATABASE_URL } };
    const first = await startGateway(options);
    const others = await Promise.all(
      [1, 2, 3].map(() => startGateway({ ...options, keys: first.keys })),
    );
    const gateways = [first, ...others];
    const heard = await askAll(gateways);
    for (const gateway of gateways) await gateway.stop();
    await expectExactly(heard, DATABASE_URL, 'tenant:default');
  },
  testMs,
);
