import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { counted } from '../../core/counted.ts';
import { invalidRequest } from '../../core/errors.ts';
import { validate } from '../../core/misfit.ts';
import { optional } from '../../core/schema-builders.ts';
import type { Balance, CreditBook, CreditEntry } from './credit-book.ts';
import { line } from './schema-parts.ts';
import { findTenant, type TenantDesk, unknownTenant } from './tenants.ts';

/** What an operator does with a tenant's credits, by HTTP or by the command line. */

export const entriesPerPage = 100;

export const creditChangeSchema = Type.Object(
  {
    amount: Type.Integer({
      minimum: Number.MIN_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      expected: 'a whole number of credits',
    }),
    note: optional(line(0, 500)),
    idempotency_key: optional(line(1, 200)),
  },
  { additionalProperties: false },
);

const creditChangeCheck = Compile(creditChangeSchema);

export interface CreditDesk extends TenantDesk {
  readonly credits: CreditBook;
}

/** Books a grant or a correction; `repeated` when its idempotency key had booked it before. */
export async function changeCredits(
  { credits, directory, now }: CreditDesk,
  tenantId: string,
  body: unknown,
): Promise<{ readonly entry: EntryObject; readonly repeated: boolean }> {
  const { amount, note, idempotency_key } = validate(creditChangeCheck, creditChangeSchema, body);
  if (amount === 0) {
    throw invalidRequest('amount must not be 0: that would change nothing.', 'amount');
  }
  const { id } = await findTenant(directory, tenantId);
  const answer = await credits.change({
    tenantId: id,
    amount,
    note: note ?? '',
    idempotencyKey: idempotency_key ?? null,
    now: now(),
  });
  switch (answer.kind) {
    case 'booked':
    case 'repeated':
      return { entry: entryObject(answer.entry), repeated: answer.kind === 'repeated' };
    case 'conflict': {
      const message = 'This idempotency_key was already used with another amount.';
      throw invalidRequest(message, 'idempotency_key', 409);
    }
    case 'insufficient': {
      const there = counted(answer.available, 'credit is', 'credits are');
      const wanted = counted(-amount, 'was', 'were');
      throw invalidRequest(`Only ${there} available; ${wanted} to go.`, 'amount');
    }
    case 'unknown-tenant':
      throw unknownTenant();
  }
}

/** A tenant that was never given anything has no wallet yet, which is an empty one. */
export async function showWallet({ credits }: CreditDesk, tenantId: string): Promise<WalletObject> {
  return walletObject((await credits.balance(tenantId)) ?? { balance: 0, leased: 0 });
}

/** Newest first. */
export async function listEntries(
  { credits }: CreditDesk,
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
