import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../core/errors.ts';
import { optional, validate } from '../../core/schema.ts';
import { pluralize } from '../../core/text.ts';
import type { Page } from '../directory.ts';
import { lineField } from './field-schemas.ts';
import { findTenant, type TenantService, unknownTenant } from './tenants.ts';

/** What an operator does with a tenant's credits, by HTTP or by the command line. */

export const entriesPerPage = 100;

export const creditChangeSchema = Type.Object(
  {
    amount: Type.Integer({
      minimum: Number.MIN_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      expected: 'a whole number of credits',
    }),
    note: optional(lineField(0, 500)),
    idempotency_key: optional(lineField(1, 200)),
  },
  { additionalProperties: false },
);

const creditChangeCheck = Compile(creditChangeSchema);

export interface CreditService extends TenantService {
  readonly credits: CreditStore;
}

/** Books a grant or a correction; `repeated` when its idempotency key had booked it before. */
export async function changeCredits(
  { credits, directory, now }: CreditService,
  tenantId: string,
  body: unknown,
): Promise<{ readonly entry: EntryObject; readonly repeated: boolean }> {
  const { amount, note, idempotency_key } = validate(creditChangeCheck, creditChangeSchema, body);
  if (amount === 0) {
    throw invalidRequest('amount must not be 0: that would change nothing.', 'amount');
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
      const message = 'This idempotency_key was already used with another amount.';
      throw invalidRequest(message, 'idempotency_key', 409);
    }
    case 'insufficient': {
      const available = pluralize(outcome.available, 'credit is', 'credits are');
      const requested = pluralize(-amount, 'was', 'were');
      throw invalidRequest(`Only ${available} available; ${requested} to go.`, 'amount');
    }
    case 'unknown-tenant':
      throw unknownTenant();
  }
}

/** A tenant that was never given anything has no wallet yet, which is an empty one. */
export async function showWallet(
  { credits }: CreditService,
  tenantId: string,
): Promise<WalletObject> {
  return walletObject((await credits.balance(tenantId)) ?? { balance: 0, leased: 0 });
}

/** Newest first. */
export async function listEntries(
  { credits }: CreditService,
  tenantId: string,
  offset: number,
): Promise<readonly EntryObject[]> {
  const entries = await credits.entries(tenantId, { limit: entriesPerPage, offset });
  return entries.map(entryObject);
}

type WalletObject = Readonly<ReturnType<typeof walletObject>>;

export function walletObject({ balance, leased }: Balance) {
  return { total: balance, held: leased, available: balance - leased };
}

type EntryObject = Readonly<ReturnType<typeof entryObject>>;

function entryObject(entry: CreditEntry) {
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

/** Why credits moved outside of a request. */
export type CreditEntryKind = 'grant' | 'correction';

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
  /** Whole credits; negative takes credits back, never below a balance of zero. */
  readonly amount: number;
  readonly note: string;
  /** The same key again answers with the first entry and moves nothing. */
  readonly idempotencyKey: string | null;
  readonly now: number;
}

export type CreditOutcome =
  | { readonly kind: 'booked'; readonly entry: CreditEntry }
  | { readonly kind: 'repeated'; readonly entry: CreditEntry }
  /** The same idempotency key was used with another amount. */
  | { readonly kind: 'conflict'; readonly entry: CreditEntry }
  | { readonly kind: 'insufficient'; readonly available: number }
  | { readonly kind: 'unknown-tenant' };

export interface Balance {
  /** Everything granted and not yet spent. */
  readonly balance: number;
  /** The part of it that running requests may still use. */
  readonly leased: number;
}

/** The store that grants and corrections need. */
export interface CreditStore {
  change(change: CreditChange): Promise<CreditOutcome>;
  balance(tenantId: string): Promise<Balance | undefined>;
  /** Newest first. */
  entries(tenantId: string, page: Page): Promise<readonly CreditEntry[]>;
}

/** Gateways look every quarter of a second whether somebody wants credits back. */
const recallTries = 5;
const recallPauseMs = 150;

/**
 * Part of a wallet may be on lease to gateways that do not use it. People see that part as
 * available, so a correction may take it: the gateways are asked to give it back first.
 */
export async function changeWithRecall(
  store: Pick<CreditStore, 'change' | 'balance'>,
  change: CreditChange,
  recall: (tenantId: string) => Promise<void>,
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
