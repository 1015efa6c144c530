/** An answer that did not come, broke off, or was no HTTP. */
export class BrokenAnswer extends Error {
  override readonly name = 'BrokenAnswer';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The other side sent something that is no HTTP. */
export function notHttp(what: string): BrokenAnswer {
  return new BrokenAnswer('EPROTO', `The server sent ${what}.`);
}
