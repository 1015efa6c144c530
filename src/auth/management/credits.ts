import { Compile } from 'typebox/schema';
import {
  type CreditEntryObject,
  creditChangeSchema,
  type creditEntryKinds,
  entriesPerPage,
  type OperatorWalletObject,
  type WalletObject,
} from '../../contract/admin.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import { validate } from '../../core/schema.ts';
import { pluralize } from '../../core/text.ts';
import type { Page } from '../tenant-directory.ts';
import { findTenant, type TenantService, unknownTenant } from './tenants.ts';

/** Grants and corrections of credits, for the HTTP API and the command line. */

const creditChangeCheck = Compile(creditChangeSchema);

export interface CreditService extends TenantService {
  readonly credits: CreditStore;
}

/** Books a grant or a correction. `repeated` is true if this idempotency key was booked before. */
export async function changeCredits(
  { credits, directory, now }: CreditService,
  tenantId: string,
  body: unknown,
): Promise<{ readonly entry: CreditEntryObject; readonly repeated: boolean }> {
  const { amount, note, idempotency_key } = validate(creditChangeCheck, creditChangeSchema, body);
  if (amount === 0) {
    throw invalidRequest('amount must not be 0.', 'amount');
  }
  const { id } = await findTenant(directory, tenantId);
  const outcome = await credits.change({
    tenantId: id,
    amount,
    note: note ?? '',
    idempotencyKey: idempotency_key ?? null,
    now: now(),
  });
  switch (outcome.kind) {
    case 'booked':
    case 'repeated':
      return { entry: entryObject(outcome.entry), repeated: outcome.kind === 'repeated' };
    case 'conflict': {
      const message = 'This idempotency_key was already used with a different amount.';
      throw invalidRequest(message, 'idempotency_key', 409);
    }
    case 'insufficient': {
      throw uncovered(-amount, await readWallet(credits, id));
    }
    case 'unknown-tenant':
      throw unknownTenant();
  }
}

/** Creates the error for a correction larger than what the store can take from a wallet. */
function uncovered(credits: number, wallet: OperatorWalletObject): GatewayError {
  const available = pluralize(wallet.available, 'credit');
  const requested = pluralize(credits, 'credit');
  if (wallet.available < credits) {
    const message = `The wallet has ${available} available; the correction takes ${requested}.`;
    return invalidRequest(message, 'amount');
  }
  const message =
    `The wallet has ${available} available, but gateway processes haven't returned enough of ` +
    'them. Try again in 30 s.';
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 30 });
}

/** Returns an empty wallet for a tenant that has not received a grant yet. */
export function showWallet(
  { credits }: CreditService,
  tenantId: string,
): Promise<OperatorWalletObject> {
  return readWallet(credits, tenantId);
}

async function readWallet(credits: CreditStore, tenantId: string): Promise<OperatorWalletObject> {
  return operatorWalletObject((await credits.balance(tenantId)) ?? noBalance);
}

/** Returns one page of entries, newest first. */
export async function listEntries(
  { credits }: CreditService,
  tenantId: string,
  offset: number,
): Promise<readonly CreditEntryObject[]> {
  const entries = await credits.entries(tenantId, { limit: entriesPerPage, offset });
  return entries.map(entryObject);
}

/** A request that used more than its hold may have spent credits that are still reported. */
export function walletObject({ balance, held }: Omit<Balance, 'leased'>): WalletObject {
  const heldOfBalance = Math.min(balance, held);
  return { total: balance, held: heldOfBalance, available: balance - heldOfBalance };
}

export function operatorWalletObject(wallet: Balance): OperatorWalletObject {
  return { ...walletObject(wallet), leased: wallet.leased };
}

function entryObject(entry: CreditEntry): CreditEntryObject {
  return {
    id: entry.id,
    tenant_id: entry.tenantId,
    type: entry.kind,
    amount: entry.amount,
    balance: entry.balance,
    note: entry.note,
    created_at: new Date(entry.createdAt).toISOString(),
  };
}

/** Why credits changed outside of a request. */
export type CreditEntryKind = (typeof creditEntryKinds)[number];

export interface CreditEntry {
  readonly id: number;
  readonly tenantId: string;
  readonly kind: CreditEntryKind;
  readonly amount: number;
  readonly balance: number;
  readonly note: string;
  readonly createdAt: number;
}

export interface CreditChange {
  readonly tenantId: string;
  /** Whole credits. A negative amount takes credits back; the balance never drops below 0. */
  readonly amount: number;
  readonly note: string;
  /** A repeated key returns the first entry and books nothing. */
  readonly idempotencyKey: string | null;
  readonly now: number;
}

export type CreditOutcome =
  | { readonly kind: 'booked'; readonly entry: CreditEntry }
  | { readonly kind: 'repeated'; readonly entry: CreditEntry }
  /** The idempotency key was used before with a different amount. */
  | { readonly kind: 'conflict'; readonly entry: CreditEntry }
  /** The store can't take this many, because the rest is spent, or leased to processes. */
  | { readonly kind: 'insufficient' }
  | { readonly kind: 'unknown-tenant' };

export interface Balance {
  /** Granted and not yet spent. */
  readonly balance: number;
  /** The part of the balance that is leased to gateway processes. */
  readonly leased: number;
  /** The part of the leased credits that running requests hold. */
  readonly held: number;
}

export interface CreditStore {
  change(change: CreditChange): Promise<CreditOutcome>;
  /** Doesn't count what requests of `exceptProcess` hold. */
  balance(tenantId: string, exceptProcess?: string): Promise<Balance | undefined>;
  /** Newest first. */
  entries(tenantId: string, page: Page): Promise<readonly CreditEntry[]>;
}

interface SettledReads {
  /** Reads after every ended request of the tenant has been committed. */
  readSettled<T>(read: () => Promise<T>, tenantId: string): Promise<T>;
  readonly processId: string;
  /** Adds what running requests of this process hold to a balance that was read without them. */
  withOwnHolds(balance: Balance, tenantId: string): Balance;
}

/** Returns a store whose reads include every ended request, and every hold of this process. */
export function settledCreditStore(
  store: CreditStore,
  accounting: SettledReads,
  recall: (tenantId: string) => Promise<unknown>,
): CreditStore {
  return {
    change: (change) =>
      accounting.readSettled(() => changeWithRecall(store, change, recall), change.tenantId),
    balance: (tenantId) =>
      accounting.readSettled(async () => {
        const balance = await store.balance(tenantId, accounting.processId);
        return balance && accounting.withOwnHolds(balance, tenantId);
      }, tenantId),
    entries: (tenantId, page) =>
      accounting.readSettled(() => store.entries(tenantId, page), tenantId),
  };
}

const noBalance: Balance = { balance: 0, leased: 0, held: 0 };

/** Gateways poll for recalls every 250 ms. */
const recallTries = 5;
const recallPauseMs = 150;

/**
 * Books a change. If a correction needs leased credits, recalls them first, because credits that
 * are leased but unused count as available.
 */
export async function changeWithRecall(
  store: Pick<CreditStore, 'change' | 'balance'>,
  change: CreditChange,
  recall: (tenantId: string) => Promise<unknown>,
): Promise<CreditOutcome> {
  const { tenantId } = change;
  let outcome = await store.change(change);
  for (let tries = 0; outcome.kind === 'insufficient' && tries < recallTries; tries++) {
    const { leased } = (await store.balance(tenantId)) ?? { leased: 0 };
    if (leased === 0) break;
    if (tries === 0) await recall(tenantId);
    await Bun.sleep(recallPauseMs);
    outcome = await store.change(change);
  }
  return outcome;
}
