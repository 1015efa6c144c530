/** Charges for streams that a shutdown interrupts. */
import { afterAll, expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openStore } from '../../src/store/open.ts';
import { chatAnswer, hangMidStream, startFakeUpstream, words } from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { discrepancies } from '../support/ledger-check.ts';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());

test('charges the delivered part of a stream that a shutdown interrupts', async () => {
  upstream.script('chat', hangMidStream(5, chatAnswer(words(24))));
  const gateway = await startGateway({
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': {} } } },
    config: { server: { drain_seconds: 1 } },
  });
  const messages = [{ role: 'user', content: 'Go on.' }];
  const streams = await Promise.all(
    [1, 2, 3].map(() => gateway.stream({ model: 'test/chat', messages })),
  );
  for (const stream of streams) expect(await stream.read(11)).toBe('w1 w2 w3 w4');
  await gateway.stop();

  const { database } = await openStore(`sqlite:${join(gateway.dataDir, 'tollgate.db')}`);
  const rows = await database.read.selectFrom('request_log').selectAll().execute();
  expect(rows).toHaveLength(3);
  for (const row of rows) {
    expect(row.status).toBe('error');
    // "w1 w2 w3 w4" has 11 characters, which are 3 tokens.
    expect(row.output_tokens).toBe(3);
    const details = { estimated: true, error: 'service_unavailable' };
    expect(JSON.parse(row.details)).toMatchObject(details);
    expect(row.model_charge).toBe(row.input_tokens + 3);
  }
  const accounts = await database.read.selectFrom('accounts').selectAll().execute();
  expect(accounts.map(({ leased }) => leased)).toEqual([0]);
  expect(await discrepancies(database)).toEqual([]);
  expect(readdirSync(join(gateway.dataDir, 'journal'))).toEqual(['ledger-id']);
  await database.close();
}, 120_000);
