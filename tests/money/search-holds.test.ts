/**
 * A search makes another round: its results are input that a provider may write to its cache, and
 * what the round before it used is spent.
 */
import { afterEach, expect, test } from 'bun:test';
import { callTools, chatAnswer } from '../support/fake-upstream.ts';
import {
  answerRound,
  chat,
  choiceOf,
  type SearchGateway,
  searchRound,
  startSearchGateway,
  tokens,
} from '../support/search-gateway.ts';

let rig: SearchGateway;
afterEach(() => rig.stop());

const search = { name: 'web_search', arguments: { query: 'weather today' }, id: 'call_1' };

/** How often a key with so many credits has searched, when its first round used so many tokens. */
async function searchesOf(limit: number, completion: number, prices: object): Promise<number> {
  rig = await startSearchGateway({}, prices);
  rig.reset();
  rig.upstream.script('chat', [callTools([search], tokens(100, completion)), answerRound('Rain.')]);
  const key = await rig.gateway.makeKey({ limit });
  expect((await rig.gateway.post(chat({ max_tokens: 50_000 }), { key })).status).toBe(200);
  return rig.engine.searches.length;
}

/** The first round needs less than a million credits, the results of a search some eight. */
test.each([
  [2_000_000, 0],
  [20_000_000, 1],
])('results are held for as if all were written to a cache: %d credits', async (limit, times) => {
  expect(await searchesOf(limit, 10, { cache_write: '1000' })).toBe(times);
});

/** Two rounds and a search need some 30,000 credits, 40,000 tokens out cost 80,000. */
test.each([
  [40_000, 0],
  [4_000, 1],
])('a round of %d tokens counts against the next one', async (completion, times) => {
  expect(await searchesOf(90_000, completion, {})).toBe(times);
});

/**
 * Before the last search 360 credits are spent on rounds and 10,000 on searches; it may cost
 * 13,000, and the round behind it some 9,000. Each of four rounds might have cost as much.
 */
test.each(['post', 'stream'] as const)(
  'what a round left over pays for others: %s',
  async (how) => {
    rig = await startSearchGateway();
    rig.reset();
    const rounds = [searchRound('a'), searchRound('b'), searchRound('c'), answerRound('Rain.')];
    rig.upstream.script('chat', rounds);
    const key = await rig.gateway.makeKey({ limit: 40_000 });
    const reply = await rig.gateway[how](chat({ max_tokens: 50_000 }), { key });
    expect(reply.text).toContain('Rain.');
    expect(rig.engine.searches).toHaveLength(3);
    expect(await rig.bill(reply)).toMatchObject({ model: 3 * 120 + 340, tool: 15_000 });
  },
);

/**
 * 100 + 2 × 5,000 and a search of 5,000 are spent before the last round: 24,900 are left for it. A
 * prompt has more than 100 tokens, and fewer than 1,000 with its results.
 */
test.each(['post', 'stream'] as const)(
  'a round is told to stop where what is left ends: %s',
  async (how) => {
    rig = await startSearchGateway();
    rig.reset();
    const key = await rig.gateway.makeKey({ limit: 40_000, cache: 'always' });
    const rounds = [
      callTools([search], tokens(100, 5_000)),
      chatAnswer('Rain.', tokens(300, 11_900)),
    ];
    const caps = () => [0, 1].map((round) => Number(rig.sentIn(round).max_tokens));
    rig.upstream.script('chat', rounds);
    const reply = await rig.gateway[how](chat({ max_tokens: 19_000 }), { key });
    const [first, last] = caps();
    expect(first).toBe(19_000);
    expect(last).toBeWithin(11_950, 12_400);
    expect(await rig.bill(reply)).toMatchObject({ model: 10_100 + 24_100, tool: 5_000 });
    // Others have credits of their own.
    rig.reset();
    rig.upstream.script('chat', rounds);
    const rich = await rig.gateway.makeKey({ cache: 'always' });
    await rig.gateway[how](chat({ max_tokens: 19_000 }), { key: rich });
    expect(caps()).toEqual([19_000, 19_000]);
  },
);

test('a round that is paid for is never told to stop a token earlier', async () => {
  const prices = { prompt: '0.33', completion: '3.3', request: '0.0000007' };
  rig = await startSearchGateway({}, prices);
  /** What the second round may say, if there is one. */
  const capAt = async (limit: number) => {
    rig.reset();
    rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
    const key = await rig.gateway.makeKey({ limit });
    await rig.gateway.post(chat({ max_tokens: 16 }), { key });
    return rig.upstream.requests.length > 1 ? rig.sentIn(1).max_tokens : undefined;
  };
  let [tooFew, enough] = [0, 1_024];
  while (enough - tooFew > 1) {
    const middle = (tooFew + enough) / 2;
    if ((await capAt(middle)) === undefined) tooFew = middle;
    else enough = middle;
  }
  expect([await capAt(enough), await capAt(enough + 1)]).toEqual([16, 16]);
});

/** 10,000 bytes are taken for 3,334 tokens: 4,000 fit beside them, not beside 2,000 bytes more. */
test.each(['post', 'stream'] as const)(
  'a round is told the operator’s cap only where that fits beside its prompt: %s',
  async (how) => {
    rig = await startSearchGateway();
    rig.reset();
    const page = { title: 'T', snippet: 'x'.repeat(400) };
    rig.engine.answer([1, 2, 3, 4, 5].map((n) => ({ ...page, url: `https://news.example/${n}` })));
    const messages = [{ role: 'user', content: 'x'.repeat(10_000) }];
    for (const own of [{}, { max_tokens: 3_900 }]) {
      rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
      await rig.gateway[how](chat({ model: 'test/small', messages, ...own }));
    }
    const caps = [0, 1, 2, 3].map((round) => rig.sentIn(round).max_tokens);
    expect(caps).toEqual([4_000, undefined, 3_900, 3_900]);
  },
);

/** The first round needs some 1,200 credits, the next beside it 1,100, and a search 13,000. */
test.each([
  ['post', 1_400, 'The credits ran out'],
  ['stream', 1_400, 'The credits ran out'],
  ['post', 4_000, 'I could not look.'],
] as const)(
  'an answer that is short for want of credits is not given to others: %s, %d',
  async (how, limit, short) => {
    rig = await startSearchGateway();
    rig.reset();
    rig.upstream.script('chat', [searchRound('a'), answerRound('I could not look.')]);
    const poor = await rig.gateway.makeKey({ limit, cache: 'always' });
    const first = await rig.gateway[how](chat({ max_tokens: 500 }), { key: poor });
    expect(first.text).toContain(short);
    expect(rig.engine.searches).toEqual([]);
    rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
    const rich = await rig.gateway.makeKey({ cache: 'always' });
    const again = await rig.gateway[how](chat({ max_tokens: 500 }), { key: rich });
    expect(again.text).toContain('Rain.');
  },
);

test('under an idempotency key, an answer that is short for want of credits is kept', async () => {
  rig = await startSearchGateway();
  rig.reset();
  rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
  const key = await rig.gateway.makeKey({ limit: 1_400, cache: 'always' });
  const named = { key, headers: { 'idempotency-key': 'order-4711' } };
  const once = await rig.gateway.post(chat({ max_tokens: 500 }), named);
  const again = await rig.gateway.post(chat({ max_tokens: 500 }), named);
  expect(again.headers.get('idempotent-replayed')).toBe('true');
  expect(choiceOf(again)).toEqual(choiceOf(once));
  expect(rig.upstream.requests).toHaveLength(1);
});
