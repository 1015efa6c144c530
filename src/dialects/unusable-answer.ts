/** The upstream sent something that no honest answer needs: too large, too many, or useless. */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer';

  constructor(what: string) {
    super(`The upstream sent ${what}.`);
  }
}
