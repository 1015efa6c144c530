/** One attempt of a request, as the log stores it. */
export interface AttemptRecord {
  readonly provider: string;
  readonly model: string;
  /** True if the tenant's own provider key was used; left out for the operator's. */
  readonly own_account?: boolean | undefined;
  /** `answered`, `client_disconnected`, or the kind of failure. */
  readonly outcome: string;
  readonly status: number | null;
  readonly message: string | null;
  readonly ms: number;
}
