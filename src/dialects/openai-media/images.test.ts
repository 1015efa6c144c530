import { expect, test } from 'bun:test';
import { valueIn } from '../../../tests/support/read-result.ts';
import { readImages } from './images.ts';

test("readImages keeps a provider's token counts, and none of its charges", () => {
  const details = { image_tokens: 3, text_tokens: 1 };
  const usage = { input_tokens: 4, output_tokens: 5, cost: 7, cost_in_usd_ticks: 9 };
  const body = {
    ...{ created: 1, model: 'up', provider: 'x', cost: 7, data: [{ b64_json: 'AAAA' }] },
    usage: { ...usage, input_tokens_details: { ...details, cost_in_cents: 2 } },
  };
  const { metadata, usageDetails } = valueIn(readImages(body));
  expect([metadata, usageDetails]).toEqual([{}, { input_tokens_details: details }]);
});
