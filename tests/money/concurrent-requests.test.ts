/** 500 concurrent requests on a wallet that covers exactly 50. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import { openStore } from '../../src/store/open.ts';
import {
  chatAnswer,
  type FakeUpstreamProcess,
  gated,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../support/gateway.ts';
import { balanceOf, chargesById, discrepancies } from '../support/ledger-check.ts';
import { startPostgres } from '../support/postgres.ts';

const testMs = 240_000;
const requestCount = 500;
const affordable = 50;
/** An output word costs 1 credit, and prompts are free. A hold therefore equals its charge. */
const wordsPerAnswer = 10;
const price = { prompt: '0', completion: '1' };
const fee = wordsPerAnswer;

let upstream: FakeUpstreamProcess;
beforeAll(async () => {
  upstream = await startFakeUpstreamProcess();
});
afterAll(() => upstream.stop());
beforeEach(async () => {
  await upstream.reset();
  // The upstream answers only when every request was admitted or rejected.
  await upstream.script('chat', gated('all admitted', 0, chatAnswer(words(wordsPerAnswer))));
});

function settings(credits: number): GatewayOptions {
  return {
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
    env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits) },
  };
}

interface Answer {
  readonly status: number;
  readonly id: string;
}

/** Sends all requests, half of them as streams. */
async function sendAll(gateways: readonly Gateway[], key?: string): Promise<readonly Answer[]> {
  let rejected = 0;
  const sending = Array.from({ length: requestCount }, async (_, number) => {
    const gateway = gateways[number % gateways.length];
    if (!gateway) throw new Error('There is no gateway.');
    const messages = [{ role: 'user', content: `Number ${number}` }];
    const stream = number % 8 < 4;
    const body = { model: 'test/chat', max_tokens: wordsPerAnswer, messages, stream };
    const answer = await gateway.chat(body, key ? { key } : {});
    if (answer.status !== 200) rejected += 1;
    if (rejected === requestCount - affordable) await upstream.open('all admitted');
    return { status: answer.status, id: answer.headers.get('x-request-id') ?? '' };
  });
  return Promise.all(sending);
}

async function expectExactly(
  answers: readonly Answer[],
  url: string,
  account: string,
): Promise<void> {
  const served = answers.filter(({ status }) => status === 200);
  expect(served).toHaveLength(affordable);
  expect(answers.filter(({ status }) => status === 402)).toHaveLength(requestCount - affordable);
  const book = await upstream.requests();
  expect(book).toHaveLength(affordable);
  const words = book.reduce((sum, { tokens }) => sum + tokens.completion, 0);
  expect(words).toBe(affordable * wordsPerAnswer);

  const { database } = await openStore(url);
  try {
    expect(await balanceOf(database, account)).toBe(0);
    expect(await discrepancies(database)).toEqual([]);
    const charges = await chargesById(database);
    expect(charges.size).toBe(requestCount);
    expect(served.map(({ id }) => charges.get(id))).toEqual(served.map(() => fee));
  } finally {
    await database.close();
  }
}

const inFile = (gateway: Gateway) => `sqlite:${join(gateway.dataDir, 'tollgate.db')}`;

test(
  'answers 50 requests if the wallet covers 50, and returns 402 for the others',
  async () => {
    const gateway = await startGateway(settings(affordable * fee));
    const answers = await sendAll([gateway]);
    await gateway.stop();
    await expectExactly(answers, inFile(gateway), 'tenant:default');
  },
  testMs,
);

test(
  "answers 50 requests if the key's limit covers 50 and the wallet covers more",
  async () => {
    const gateway = await startGateway(settings(10 * requestCount * fee));
    const created = await gateway.manage('POST', '/api/v1/keys', {
      name: 'limited',
      limit: affordable * fee,
    });
    const key = String(created.body.key);
    const answers = await sendAll([gateway], key);
    await gateway.stop();
    const { data } = created.body;
    await expectExactly(answers, inFile(gateway), `key:${isObject(data) ? data.id : ''}`);
  },
  testMs,
);

test(
  'answers 50 requests across 4 processes that share a Postgres database',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const shared = settings(affordable * fee);
    const options = { ...shared, env: { ...shared.env, DATABASE_URL } };
    const first = await startGateway(options);
    const others = await Promise.all(
      [1, 2, 3].map(() => startGateway({ ...options, keys: first.keys })),
    );
    const gateways = [first, ...others];
    const answers = await sendAll(gateways);
    for (const gateway of gateways) await gateway.stop();
    await expectExactly(answers, DATABASE_URL, 'tenant:default');
  },
  testMs,
);
