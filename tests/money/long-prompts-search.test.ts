/** Each round of a web search has the price tier for the length of its own prompt. */
import { afterEach, expect, test } from 'bun:test';
import { dataOf } from '../support/byok.ts';
import { contentOf } from '../support/in-process.ts';
import {
  answerRound,
  chat,
  type SearchGateway,
  searchRound,
  startSearchGateway,
} from '../support/search-gateway.ts';

let rig: SearchGateway;
afterEach(() => rig.stop());

/** Scripts a round of 100 input and 10 output tokens, and one of 300 and 20. */
async function start(long_prompts: object[]) {
  rig = await startSearchGateway({}, { long_prompts });
  rig.reset();
  rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained.')]);
}

const tierAbove = (above_tokens: number) => ({ above_tokens, prompt: '3', completion: '5' });

test.each([
  // 120 + 340. Only the sum of both rounds is above 350.
  [350, 460],
  [300, 460],
  [299, 120 + 300 * 3 + 20 * 5],
  [99, 100 * 3 + 10 * 5 + 300 * 3 + 20 * 5],
])('with a tier above %d tokens, the rounds cost %d credits', async (above, credits) => {
  await start([tierAbove(above)]);
  const full = await rig.gateway.post(chat());
  expect((await rig.bill(full)).model).toBe(credits);
  rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained.')]);
  const streamed = await rig.gateway.stream(chat());
  expect((await rig.bill(streamed)).model).toBe(credits);
});

test('the receipt lists the tokens of each round at its price', async () => {
  await start([tierAbove(299)]);
  const { requestId } = await rig.gateway.post(chat());
  const receipt = dataOf(await rig.gateway.get(`/v1/customer/logs/${requestId}`));
  expect(receipt).toMatchObject({
    tokens: { prompt: 400, completion: 30 },
    prices_above_tokens: 299,
    prices: { prompt: '3', completion: '5' },
    cost_breakdown: { model_charge: 1_120, managed_tool_fee: 5_000 },
  });
  expect(receipt.lines).toMatchObject([
    { price: 'prompt', quantity: 100, usd: '1', credits: '100' },
    { price: 'completion', quantity: 10, usd: '2', credits: '20' },
    { price: 'prompt', quantity: 300, usd: '3', credits: '900' },
    { price: 'completion', quantity: 20, usd: '5', credits: '100' },
  ]);
});

test('the hold of the next round covers the tier that the search results may reach', async () => {
  // The first prompt has a few hundred tokens. The results of one search may have 8,000.
  await start([{ above_tokens: 4_000, prompt: '1000' }]);
  const broke = await rig.gateway.post(chat(), {
    key: await rig.gateway.makeKey({ limit: 100_000 }),
  });
  expect(contentOf(broke)).toBe('The credits ran out before there was an answer.');
  expect(rig.engine.searches).toHaveLength(0);
  rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained.')]);
  const limit = 100_000_000;
  const answered = await rig.gateway.post(chat(), { key: await rig.gateway.makeKey({ limit }) });
  expect(contentOf(answered)).toBe('It rained.');
});
