/** The upstream sent what no honest answer needs: too large, too many, or of no use to anybody. */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer';

  constructor(what: string) {
    super(`The upstream sent ${what}.`);
  }
}
