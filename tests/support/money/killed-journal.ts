/**
 * Writes 2 charges to a journal with durability `fsync`. The sync of the second one never ends, so
 * its answer isn't released. Prints a line, and waits to be killed.
 */
import { toSettlementEntry } from '../../../src/money/ledger.ts';
import { Journal } from '../../../src/money/settle/journal.ts';
import { callerOf, settlementOf } from './settlements.ts';

let syncs = 0;
const journal = new Journal(process.argv[2] ?? '', 'killed', 'fsync', (_file, done) => {
  syncs += 1;
  if (syncs === 1) done(null);
  else process.stdout.write('written\n');
});
for (const journalNumber of [0, 1]) {
  const settlement = settlementOf(crypto.randomUUID(), callerOf('ten_1'), 7 + journalNumber);
  await journal.settled(toSettlementEntry({ ...settlement, journalNumber }));
}
