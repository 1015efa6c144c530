import type { FailureKind } from '../../dialects/dialect.ts';

/** A key with which a request cannot even be sent. The sentence says nothing of the key itself. */
export class UnusableKey extends Error {
  override readonly name = 'UnusableKey';
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}
