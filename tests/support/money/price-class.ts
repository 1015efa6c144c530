/** Expectations for classes of tokens that have a separate price. */
import { expect } from 'bun:test';
import { isObject } from '../../../src/core/json.ts';
import { dataOf, makeByokTenant } from '../byok.ts';
import type { InProcessGateway, SendOptions } from '../in-process.ts';

/** Sends a request and returns its charge, which must not be based on an estimate. */
export async function chargeFor(gateway: InProcessGateway, body: object, options?: SendOptions) {
  const { requestId } = await gateway.post(body, options);
  const { charges, usageEstimated } = await gateway.record(requestId);
  expect(usageEstimated).toBe(false);
  return charges.modelCharge;
}

export async function receiptOf(
  gateway: InProcessGateway,
  requestId: string,
  options?: SendOptions,
): Promise<Record<string, unknown>> {
  return dataOf(await gateway.get(`/v1/customer/logs/${requestId}`, options));
}

/** Expects a request to hold this many credits: it is rejected if the key has 1 credit less. */
export async function expectHold(
  gateway: InProcessGateway,
  credits: number,
  body: string,
  options: SendOptions = {},
): Promise<void> {
  const status = async (limit: number) => {
    const key = await gateway.makeKey({ limit });
    return (await gateway.post(body, { ...options, key })).status;
  };
  expect([await status(credits - 1), await status(credits)]).toEqual([402, 200]);
}

/** Expects this platform fee when the tenant uses its own key for `provider`. */
export async function expectOwnAccountFee(
  gateway: InProcessGateway,
  credits: number,
  { provider, body, options = {} }: { provider: string; body: object; options?: SendOptions },
): Promise<void> {
  const { key, setProviderKey } = await makeByokTenant(gateway, 'own-account', 10_000);
  await setProviderKey(provider, { api_key: 'sk-mine-0123456789' });
  const { requestId } = await gateway.post(body, { ...options, key });
  expect(await receiptOf(gateway, requestId, { key })).toMatchObject({
    cost_breakdown: { model_charge: 0, byok_platform_fee: credits },
  });
}

/**
 * Expects this price in the endpoints of the customer's model list. `/v1/models` contains only the
 * 4 prices that its clients know.
 */
export async function expectListedPrice(
  gateway: InProcessGateway,
  model: string,
  endpoint: object,
): Promise<void> {
  const { json } = await gateway.get('/v1/customer/models');
  const models = Array.isArray(json.data) ? json.data.filter(isObject) : [];
  expect(models.find(({ id }) => id === model)?.endpoints).toMatchObject([endpoint]);
  const listed = await gateway.get(`/v1/models/${model}`);
  expect(Object.keys(isObject(listed.json.pricing) ? listed.json.pricing : {})).toEqual([
    'prompt',
    'completion',
    'request',
    'image',
  ]);
}
