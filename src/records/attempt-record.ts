/** One attempt at a request, as it is kept in the log: where it went and what came of it. */
export interface AttemptRecord {
  readonly provider: string;
  readonly model: string;
  /** Whether it was an account of the tenant's own; left out for the operator's. */
  readonly own_account?: boolean | undefined;
  /** `answered`, `left` when the client went meanwhile, or the kind of failure. */
  readonly outcome: string;
  readonly status: number | null;
  readonly message: string | null;
  readonly ms: number;
}
