/**
 * A batch was not booked, because another transaction is writing some of its claims. `requests`
 * has their request ids with their tenants; without them the batch can be booked.
 */
export class ClaimsInUse extends Error {
  readonly requests: ReadonlyMap<string, string>;

  constructor(requests: ReadonlyMap<string, string>) {
    super(`${requests.size} answers under an Idempotency-Key are being written.`);
    this.requests = requests;
  }
}
