/** Answers that cost nothing have a row too, and a gateway that is killed does not lose it. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { openStore } from '../../src/store/open.ts';
import { type FakeUpstream, chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { price } from '../support/money/bills.ts';

const testMs = 120_000;
let upstream: FakeUpstream;

beforeAll(() => {
  upstream = startFakeUpstream();
  upstream.script('chat', chatAnswer('It rained.'));
});
afterAll(() => upstream.stop());

test(
  'every hit and every replay whose end a client saw is in the log after kill -9',
  async () => {
    const gateway = await startGateway({
      upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } },
      config: { limits: { requests_per_minute: 1_000_000 } },
    });
    const messages = [{ role: 'user', content: 'And yesterday?' }];
    const chat = { model: 'test/chat', temperature: 0, messages };
    const named = { headers: { 'idempotency-key': 'order-7' } };
    await gateway.chat(chat);
    await gateway.chat(chat, named);
    const again = Array.from({ length: 60 }, (_, i) => ({ ...chat, stream: i % 2 === 1 }));
    const answers = await Promise.all(
      again.map((body, i) => gateway.chat(body, i % 3 === 0 ? named : {})),
    );
    await gateway.kill9();
    expect(answers.map(({ headers }) => headers.get('x-cache'))).toEqual(again.map(() => 'HIT'));
    const next = await gateway.another();
    await next.stop();

    const { database } = await openStore(`sqlite:${gateway.dataDir}/tollgate.db`);
    const rows = await database.read.selectFrom('request_log').select('request_id').execute();
    await database.close();
    const logged = new Set(rows.map((row) => Buffer.from(row.request_id).toString('hex')));
    const ids = answers.map(({ headers }) => headers.get('x-request-id') ?? '');
    expect(ids.filter((id) => !logged.has(id.replaceAll('-', '')))).toEqual([]);
  },
  testMs,
);
