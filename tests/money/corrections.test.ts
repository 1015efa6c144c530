/** What a gateway has on lease and does not use can be taken back like the rest of a wallet. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { isObject, parseJson } from '../../src/core/json.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const startMs = 120_000;
const ask = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

const credits = '/admin/v1/tenants/default/credits';

async function available(): Promise<number> {
  const { body } = await gateway.call('GET', '/v1/customer/credits', { key: gateway.keys.api });
  return Number(isObject(body.balance) ? body.balance.available : undefined);
}

test('after a request, everything that is shown as available can be taken back', async () => {
  expect((await gateway.chat(ask)).status).toBe(200);
  const left = await available();
  expect(left).toBeWithin(1, 10_000_000);
  const tooMuch = await gateway.admin('POST', credits, { amount: -left - 1 });
  expect([tooMuch.status, tooMuch.error.param]).toEqual([400, 'amount']);
  expect(tooMuch.error.message).toBe(
    `The wallet has ${left} credits available; the correction takes ${left + 1} credits.`,
  );
  const all = await gateway.admin('POST', credits, { amount: -left });
  expect(all.status).toBe(201);
  expect(isObject(all.body.data) && all.body.data.balance).toBe(0);
  expect((await gateway.chat(ask)).status).toBe(402);
});

test('so it can by the command line, beside a running gateway', async () => {
  await gateway.admin('POST', credits, { amount: 1_000_000 });
  expect((await gateway.chat(ask)).status).toBe(200);
  const amount = `-${await available()}`;
  const words = ['credits', 'correct', '--tenant', 'default', '--amount', amount, '--json'];
  const { exitCode, stdout } = await gateway.command(...words);
  expect(exitCode).toBe(0);
  const printed = parseJson(stdout);
  const entry = isObject(printed) ? printed.data : undefined;
  expect(isObject(entry) && [entry.amount, entry.balance]).toEqual([Number(amount), 0]);
  expect((await gateway.chat(ask)).status).toBe(402);
});
