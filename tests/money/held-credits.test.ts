/** The credits that running requests hold, as every process and every interface shows them. */
import { expect, test } from 'bun:test';
import { isObject, type JsonObject, parseJson } from '../../src/core/json.ts';
import { chatAnswer, gated, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 240_000;

function objectIn(value: unknown, name: string): JsonObject {
  const found = isObject(value) ? value[name] : undefined;
  if (!isObject(found)) throw new Error(`${name} isn't an object.`);
  return found;
}

/** Returns total, held, and available as one process, or the command line, shows them. */
async function shownBy(gateway: Gateway) {
  const key = gateway.keys.api;
  const customer = await gateway.call('GET', '/v1/customer/credits', { key });
  const admin = await gateway.admin('GET', '/admin/v1/tenants/default');
  const overview = await gateway.admin('GET', '/admin/v1/overview');
  const wallets = [
    objectIn(customer.body, 'balance'),
    objectIn(admin.body.data, 'credits'),
    objectIn(overview.body.data, 'credits'),
  ];
  return wallets.map(({ total, held, available }) => ({ total, held, available }));
}

test(
  'every process and the CLI show what running requests hold, and not what processes lease',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    await using cleanup = new AsyncDisposableStack();
    const upstream = startFakeUpstream();
    cleanup.defer(() => upstream.stop());
    const upstreams = { vendor: { url: upstream.url, models: { 'acme/chat': {} } } };
    await using first = await startGateway({ env: { DATABASE_URL }, upstreams });
    await using second = await first.another();
    upstream.script('chat', gated('half-way', 2, chatAnswer('one two three')));
    const messages = [{ role: 'user', content: 'Hello!' }];
    const running = first.chat({ model: 'acme/chat', messages });
    await upstream.until((requests) => requests.find(({ outcome }) => outcome === 'open'));
    const [wallet] = await shownBy(first);
    const { total, held, available } = wallet ?? {};
    expect(held).toBeGreaterThan(0);
    expect(Number(held) + Number(available)).toBe(Number(total));
    await waitUntil(async () => (await shownBy(second)).every((shown) => shown.held === held));
    expect([...(await shownBy(first)), ...(await shownBy(second))]).toEqual(
      Array.from({ length: 6 }, () => ({ total, held, available })),
    );
    const printed = await first.command('credits', 'show', '--tenant', 'default', '--json');
    const ofCommand = objectIn(parseJson(printed.stdout), 'data');
    expect(ofCommand).toMatchObject({ total, held, available });
    expect(Number(ofCommand.leased)).toBeGreaterThan(Number(held));

    upstream.open('half-way');
    expect((await running).status).toBe(200);
    expect((await shownBy(first)).map((shown) => shown.held)).toEqual([0, 0, 0]);
    await waitUntil(async () => (await shownBy(second)).every((shown) => shown.held === 0));
  },
  testMs,
);
