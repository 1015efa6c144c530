/**
 * A batch was not booked, since somebody is writing claims of it right now: by request, the tenants
 * whose they are. The rest can be booked without them.
 */
export class ClaimsInUse extends Error {
  readonly requests: ReadonlyMap<string, string>;

  constructor(requests: ReadonlyMap<string, string>) {
    super(`${requests.size} answers under an Idempotency-Key are being written.`);
    this.requests = requests;
  }
}
