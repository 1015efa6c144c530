/** A wallet since its first grant, in whole credits. */
export interface WalletTotals {
  readonly balance: number;
  readonly leased: number;
  /** Everything ever given, and everything the operator took back or corrected (below zero). */
  readonly granted: number;
  readonly adjusted: number;
  readonly spent: number;
  readonly requests: number;
}

export interface WalletReads {
  /** A tenant without a wallet has an empty one. */
  totals(tenantId: string): Promise<WalletTotals>;
}
