// A provider's error may quote any credential, such as one that a proxy mixed up, so all that this
// process has seen are removed.

/** Shorter texts may be ordinary words. */
const lengthMin = 12;

/** About 2 MB. Tenants can have more, but then the oldest haven't been used for a while. */
const credentialsMax = 20_000;

/** Credentials are found by their last characters, because their first ones are often the same. */
const endLength = 8;

/** The credentials that this process has seen. */
export class KnownCredentials {
  /** In order of their last use. */
  readonly #all = new Set<string>();
  readonly #byEnd = new Map<string, string[]>();

  add(credential: string): void {
    if (credential.length < lengthMin) return;
    const isKnown = this.#all.delete(credential);
    this.#all.add(credential);
    if (isKnown) return;
    const end = credential.slice(-endLength);
    this.#byEnd.set(end, [...(this.#byEnd.get(end) ?? []), credential]);
    const [oldest] = this.#all;
    if (this.#all.size > credentialsMax && oldest !== undefined) this.#remove(oldest);
  }

  #remove(credential: string): void {
    this.#all.delete(credential);
    const end = credential.slice(-endLength);
    const others = (this.#byEnd.get(end) ?? []).filter((other) => other !== credential);
    if (others.length > 0) this.#byEnd.set(end, others);
    else this.#byEnd.delete(end);
  }

  /**
   * Returns the credentials in a text, longest first, because one may contain another. Takes the
   * same time however many are known.
   */
  findIn(text: string): string[] {
    const found: string[] = [];
    for (let end = lengthMin; end <= text.length; end += 1) {
      for (const credential of this.#byEnd.get(text.slice(end - endLength, end)) ?? []) {
        if (text.startsWith(credential, end - credential.length)) found.push(credential);
      }
    }
    return found.sort((a, b) => b.length - a.length);
  }
}

export const knownCredentials = new KnownCredentials();
