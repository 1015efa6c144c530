/** Negative corrections of a wallet that a running gateway has leased credits from. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { isObject, parseJson } from '../../src/core/json.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const startMs = 120_000;
const chatBody = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

const creditsPath = '/admin/v1/tenants/default/credits';

async function available(): Promise<number> {
  const { body } = await gateway.call('GET', '/v1/customer/credits', { key: gateway.keys.api });
  return Number(isObject(body.balance) ? body.balance.available : undefined);
}

test('the admin API can take back all credits that are reported as available', async () => {
  expect((await gateway.chat(chatBody)).status).toBe(200);
  const credits = await available();
  expect(credits).toBeWithin(1, 10_000_000);
  const tooMuch = await gateway.admin('POST', creditsPath, { amount: -credits - 1 });
  expect([tooMuch.status, tooMuch.error.param]).toEqual([400, 'amount']);
  expect(tooMuch.error.message).toBe(
    `The wallet has ${credits} credits available; the correction takes ${credits + 1} credits.`,
  );
  const all = await gateway.admin('POST', creditsPath, { amount: -credits });
  expect(all.status).toBe(201);
  expect(isObject(all.body.data) && all.body.data.balance).toBe(0);
  expect((await gateway.chat(chatBody)).status).toBe(402);
});

test('the CLI can take back all available credits while a gateway runs', async () => {
  await gateway.admin('POST', creditsPath, { amount: 1_000_000 });
  expect((await gateway.chat(chatBody)).status).toBe(200);
  const amount = `-${await available()}`;
  const args = ['credits', 'correct', '--tenant', 'default', '--amount', amount, '--json'];
  const { exitCode, stdout } = await gateway.command(...args);
  expect(exitCode).toBe(0);
  const printed = parseJson(stdout);
  const entry = isObject(printed) ? printed.data : undefined;
  expect(isObject(entry) && [entry.amount, entry.balance]).toEqual([Number(amount), 0]);
  expect((await gateway.chat(chatBody)).status).toBe(402);
});
