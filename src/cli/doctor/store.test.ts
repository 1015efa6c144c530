import { afterEach, expect, setSystemTime, test } from 'bun:test';
import { startPostgres } from '../../../tests/support/postgres.ts';
import { everySection, loadConfig } from '../../config/load.ts';
import { runCheck } from './check.ts';
import { StoreProbe, storeChecks } from './store.ts';

const hourMs = 3_600_000;
afterEach(() => {
  setSystemTime();
});

test('the store check fails for an invalid URL', async () => {
  const data = { database: 'sqlite::memory:' };
  const config = loadConfig({}, {}, everySection, { source: 'test', data });
  const [check] = storeChecks(config, new StoreProbe(config));
  expect(check && (await runCheck(check))).toEqual({
    isHealthy: false,
    found: 'The sqlite: URL must name a file.',
    fix: null,
  });
});

test.each([
  [hourMs, /^This machine's clock is 3[56]\d\d\.\d s ahead of the database's\.$/],
  [-hourMs, /^This machine's clock is 3[56]\d\d\.\d s behind the database's\.$/],
])('the clock check fails if the clock is off by %d ms', async (ms, sentence) => {
  const DATABASE_URL = await (await startPostgres()).createDatabase();
  const config = loadConfig({}, { DATABASE_URL }, everySection, { source: 'test', data: {} });
  const store = new StoreProbe(config);
  setSystemTime(Date.now() + ms);
  const check = storeChecks(config, store).find(({ name }) => name === 'clock');
  const found = check && (await runCheck(check));
  await store.close();
  expect(found).toEqual({
    isHealthy: false,
    found: expect.stringMatching(sentence),
    fix: 'Synchronize both clocks: timedatectl set-ntp true',
  });
});
