/** The log has rows for replayed answers, which are free of charge, even after a crash. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { openStore } from '../../src/store/open.ts';
import { chatAnswer, type FakeUpstream, startFakeUpstream } from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { price } from '../support/money/expected-charges.ts';

const testMs = 120_000;
let upstream: FakeUpstream;

beforeAll(() => {
  upstream = startFakeUpstream();
  upstream.script('chat', chatAnswer('It rained.'));
});
afterAll(() => upstream.stop());

test(
  'logs every replayed answer that a client received, even after kill -9',
  async () => {
    const gateway = await startGateway({
      upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } },
      config: { limits: { requests_per_minute: 1_000_000 } },
    });
    const messages = [{ role: 'user', content: 'And yesterday?' }];
    const chat = { model: 'test/chat', temperature: 0, messages };
    const idempotent = { headers: { 'idempotency-key': 'order-7' } };
    await gateway.chat(chat);
    await gateway.chat(chat, idempotent);
    const repeats = Array.from({ length: 60 }, (_, i) => ({ ...chat, stream: i % 2 === 1 }));
    const answers = await Promise.all(
      repeats.map((body, i) => gateway.chat(body, i % 3 === 0 ? idempotent : {})),
    );
    await gateway.kill9();
    expect(answers.map(({ headers }) => headers.get('x-cache'))).toEqual(repeats.map(() => 'HIT'));
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
