/**
 * A search makes another round: its results are input that a provider may write to its cache, and
 * what the round before it used is spent.
 */
import { afterEach, expect, test } from 'bun:test';
import { callTools } from '../support/fake-upstream.ts';
import { answerIt, chat, type SearchRig, startSearchRig, tokens } from '../support/search-rig.ts';

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
