/**
 * Holds for web searches. Each search leads to another round, whose input contains the results. A
 * round can use only the credits that earlier rounds left.
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

/** Returns how many searches a key with this limit made after a first round of this length. */
async function countSearches(limit: number, completion: number, prices: object): Promise<number> {
  rig = await startSearchGateway({}, prices);
  rig.reset();
  rig.upstream.script('chat', [callTools([search], tokens(100, completion)), answerRound('Rain.')]);
  const key = await rig.gateway.makeKey({ limit });
  expect((await rig.gateway.post(chat({ max_tokens: 50_000 }), { key })).status).toBe(200);
  return rig.engine.searches.length;
}

// The first round needs fewer than a million credits. Search results need about 8 million.
test.each([
  [2_000_000, 0],
  [20_000_000, 1],
])('holds results as cache writes: with %d credits, searches %d times', async (limit, times) => {
  expect(await countSearches(limit, 10, { cache_write: '1000' })).toBe(times);
});

// Two rounds and a search need about 30,000 credits. 40,000 output tokens cost 80,000.
test.each([
  [40_000, 0],
  [4_000, 1],
])('after a round of %d tokens, searches %d times', async (completion, times) => {
  expect(await countSearches(90_000, completion, {})).toBe(times);
});

// Before the last search, rounds have cost 360 credits and searches 10,000. The last search may
// cost 13,000, and its round about 9,000. The limit couldn't cover 4 rounds of that size.
test.each(['post', 'stream'] as const)(
  'uses the credits left by earlier rounds in later rounds: %s',
  async (method) => {
    rig = await startSearchGateway();
    rig.reset();
    const rounds = [searchRound('a'), searchRound('b'), searchRound('c'), answerRound('Rain.')];
    rig.upstream.script('chat', rounds);
    const key = await rig.gateway.makeKey({ limit: 40_000 });
    const reply = await rig.gateway[method](chat({ max_tokens: 50_000 }), { key });
    expect(reply.text).toContain('Rain.');
    expect(rig.engine.searches).toHaveLength(3);
    expect(await rig.bill(reply)).toMatchObject({ model: 3 * 120 + 340, tool: 15_000 });
  },
);

// Before the last round, 100 + 2 × 5,000 credits for a round and 5,000 for a search are spent, so
// 24,900 are left. The last prompt has between 100 and 1,000 tokens, including the results.
test.each(['post', 'stream'] as const)(
  'lowers the output cap of a round to the remaining credits: %s',
  async (method) => {
    rig = await startSearchGateway();
    rig.reset();
    const key = await rig.gateway.makeKey({ limit: 40_000, cache: 'always' });
    const rounds = [
      callTools([search], tokens(100, 5_000)),
      chatAnswer('Rain.', tokens(300, 11_900)),
    ];
    const caps = () => [0, 1].map((round) => Number(rig.sentIn(round).max_tokens));
    rig.upstream.script('chat', rounds);
    const reply = await rig.gateway[method](chat({ max_tokens: 19_000 }), { key });
    const [first, last] = caps();
    expect(first).toBe(19_000);
    expect(last).toBeWithin(11_950, 12_400);
    expect(await rig.bill(reply)).toMatchObject({ model: 10_100 + 24_100, tool: 5_000 });
    // A key with more credits isn't affected by the cached answer.
    rig.reset();
    rig.upstream.script('chat', rounds);
    const rich = await rig.gateway.makeKey({ cache: 'always' });
    await rig.gateway[method](chat({ max_tokens: 19_000 }), { key: rich });
    expect(caps()).toEqual([19_000, 19_000]);
  },
);

test('does not lower the output cap of a round that the credits cover', async () => {
  const prices = { prompt: '0.33', completion: '3.3', request: '0.0000007' };
  rig = await startSearchGateway({}, prices);
  /** Returns the output cap of the second round, if there is one. */
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

// 10,000 bytes are held as 3,334 tokens. The context has room for them and a cap of 4,000, but not
// for another 2,000 bytes of search results.
test.each(['post', 'stream'] as const)(
  "sends the operator's output cap only if it fits into the context: %s",
  async (method) => {
    rig = await startSearchGateway();
    rig.reset();
    const page = { title: 'T', snippet: 'x'.repeat(400) };
    rig.engine.answer([1, 2, 3, 4, 5].map((n) => ({ ...page, url: `https://news.example/${n}` })));
    const messages = [{ role: 'user', content: 'x'.repeat(10_000) }];
    for (const own of [{}, { max_tokens: 3_900 }]) {
      rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
      await rig.gateway[method](chat({ model: 'test/small', messages, ...own }));
    }
    const caps = [0, 1, 2, 3].map((round) => rig.sentIn(round).max_tokens);
    expect(caps).toEqual([4_000, undefined, 3_900, 3_900]);
  },
);

// The first round needs about 1,200 credits, the next round 1,100, and a search 13,000.
test.each([
  ['post', 1_400, 'The credits ran out'],
  ['stream', 1_400, 'The credits ran out'],
  ['post', 4_000, 'I could not look.'],
] as const)(
  'does not cache an answer that was shortened by a lack of credits: %s with %d credits',
  async (method, limit, shortened) => {
    rig = await startSearchGateway();
    rig.reset();
    rig.upstream.script('chat', [searchRound('a'), answerRound('I could not look.')]);
    const poor = await rig.gateway.makeKey({ limit, cache: 'always' });
    const first = await rig.gateway[method](chat({ max_tokens: 500 }), { key: poor });
    expect(first.text).toContain(shortened);
    expect(rig.engine.searches).toEqual([]);
    rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
    const rich = await rig.gateway.makeKey({ cache: 'always' });
    const again = await rig.gateway[method](chat({ max_tokens: 500 }), { key: rich });
    expect(again.text).toContain('Rain.');
  },
);

test('replays a shortened answer for its Idempotency-Key', async () => {
  rig = await startSearchGateway();
  rig.reset();
  rig.upstream.script('chat', [searchRound('a'), answerRound('Rain.')]);
  const key = await rig.gateway.makeKey({ limit: 1_400, cache: 'always' });
  const options = { key, headers: { 'idempotency-key': 'order-4711' } };
  const once = await rig.gateway.post(chat({ max_tokens: 500 }), options);
  const again = await rig.gateway.post(chat({ max_tokens: 500 }), options);
  expect(again.headers.get('idempotent-replayed')).toBe('true');
  expect(choiceOf(again)).toEqual(choiceOf(once));
  expect(rig.upstream.requests).toHaveLength(1);
});
