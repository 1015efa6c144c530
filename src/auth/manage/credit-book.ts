import type { Page } from '../directory.ts';

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
export interface CreditBook {
  change(change: CreditChange): Promise<CreditOutcome>;
  balance(tenantId: string): Promise<Balance | undefined>;
  /** Newest first. */
  entries(tenantId: string, page: Page): Promise<readonly CreditEntry[]>;
}
