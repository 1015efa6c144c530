import type { Config } from '../../config/config.ts';
import { areJournalsOf, journalFailure, journalRoot } from '../../ledger/journal-folder.ts';
import { deadJournals } from '../../ledger/replay.ts';
import { fixedCreditRate } from '../../store/credit-rate.ts';
import { knownDeployment } from '../../store/deployment.ts';
import { overdueLeases } from '../../store/reads/overdue-leases.ts';
import { counted } from '../table.ts';
import { type Check, type Finding, unwell, well } from './check.ts';
import type { StoreLook } from './store.ts';

/**
 * Leases last for minutes: one overdue by this much belongs to a dead process not started again.
 */
const lateMs = 24 * 3_600_000;

export function bookChecks(config: Config, store: StoreLook): readonly Check[] {
  return [
    { name: 'journal', look: () => journal(config, store) },
    { name: 'books', look: () => books(config, store) },
  ];
}

async function journal({ dataDir }: Config, store: StoreLook): Promise<Finding> {
  try {
    const database = await store.ready();
    const deployment = database && (await knownDeployment(database));
    if (deployment !== undefined) areJournalsOf(dataDir, deployment);
    const dead = deadJournals(journalRoot(dataDir), Date.now()).length;
    if (dead === 0) return well('No process that has ended left requests behind.');
    const found = `${counted(dead, 'journal')} left by processes that do not run any more.`;
    return unwell(found, 'Start a gateway on this folder, which books them: "tollgate serve".');
  } catch (thrown) {
    throw journalFailure(thrown);
  }
}

async function books({ creditsPerUsd }: Config, store: StoreLook): Promise<Finding | undefined> {
  const database = await store.ready();
  if (!database) return undefined;
  const rate = await fixedCreditRate(database);
  if (rate !== undefined && rate !== creditsPerUsd) {
    const found = `They are kept in ${rate} credits per dollar, not in ${creditsPerUsd}.`;
    return unwell(found, `Set credits_per_usd to ${rate}.`);
  }
  const { leases, credits } = await overdueLeases(database, Date.now() - lateMs);
  if (leases > 0) {
    const held = counted(credits, 'credit');
    const found = `${held} are on hold for longer than a day, in ${counted(leases, 'lease')}.`;
    return unwell(found, 'Start a gateway, which gives them back: "tollgate serve".');
  }
  const more = '"tollgate ledger verify" follows every balance';
  return well(`Nothing is on hold for longer than a day; ${more}.`);
}
