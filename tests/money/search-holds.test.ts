/**
 * A search makes another round: its results are input that a provider may write to its cache, and
 * what the round before it used is spent.
 */
import { afterEach, expect, test } from 'bun:test';
import { callTools } from '../support/fake-upstream.ts';
import {
  answerIt,
  chat,
  type SearchRig,
  searchFor,
  startSearchRig,
  tokens,
} from '../support/search-rig.ts';

let rig: SearchRig;
afterEach(() => rig.stop());

const search = { name: 'web_search', arguments: { query: 'weather today' }, id: 'call_1' };

/** How often a key with so many credits has searched, when its first round used so many tokens. */
async function searchesOf(limit: number, completion: number, prices: object): Promise<number> {
  rig = await startSearchRig({}, prices);
  rig.reset();
  rig.upstream.script('chat', [callTools([search], tokens(100, completion)), answerIt('Rain.')]);
  const key = await rig.gateway.makeKey({ limit });
  expect((await rig.gateway.post(chat({ max_tokens: 50_000 }), { key })).status).toBe(200);
  return rig.engine.asked.length;
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
    rig = await startSearchRig();
    rig.reset();
    const rounds = [searchFor('a'), searchFor('b'), searchFor('c'), answerIt('Rain.')];
    rig.upstream.script('chat', rounds);
    const key = await rig.gateway.makeKey({ limit: 40_000 });
    const reply = await rig.gateway[how](chat({ max_tokens: 50_000 }), { key });
    expect(reply.text).toContain('Rain.');
    expect(rig.engine.asked).toHaveLength(3);
    expect(await rig.bill(reply)).toMatchObject({ model: 3 * 120 + 340, tool: 15_000 });
  },
);
