import type { CreditBook, CreditChange, CreditOutcome } from './credit-book.ts';

/** Gateways look every quarter of a second whether somebody wants credits back. */
const recallTries = 5;
const recallPauseMs = 150;

/**
 * Part of a wallet may be on lease to gateways that do not use it. People see that part as
 * available, so a correction may take it: the gateways are asked to give it back first.
 */
export async function changeOrRecall(
  book: Pick<CreditBook, 'change' | 'balance'>,
  change: CreditChange,
  recall: (tenantId: string) => Promise<void>,
): Promise<CreditOutcome> {
  const { tenantId } = change;
  let outcome = await book.change(change);
  for (let tried = 0; outcome.kind === 'insufficient' && tried < recallTries; tried++) {
    const { leased } = (await book.balance(tenantId)) ?? { leased: 0 };
    if (leased === 0) break;
    if (tried === 0) await recall(tenantId);
    await Bun.sleep(recallPauseMs);
    outcome = await book.change(change);
  }
  return outcome;
}
