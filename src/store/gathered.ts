import { within } from '../core/within.ts';
import { tooBusy } from './turns.ts';

/** Questions of one query: ten thousand take twenty, and none of those takes long. */
const askedAtOnce = 512;
/** All keys of a busy process at once; whoever invents keys gets no more of our memory. */
const waitingMax = 10_000;
/** A query that takes longer does not hold up those who came after it. */
const aloneMs = 1_000;

interface Asker<Asked, Found> {
  readonly asked: Asked;
  readonly tell: (found: Found) => void;
  readonly fail: (thrown: unknown) => void;
}

/**
 * Small questions that come in herds: whenever any key is changed, every process forgets all keys
 * it knew and asks for each again. Those who come while others are answered share the next query;
 * no answer is older than its question.
 */
export class Gathered<Asked, Found> {
  readonly #query: (asked: readonly Asked[]) => Promise<(one: Asked) => Found>;
  #waiting: Asker<Asked, Found>[] = [];
  #isAsking = false;

  /** What the query brings is read for each by itself: one that cannot be read fails alone. */
  constructor(query: (asked: readonly Asked[]) => Promise<(one: Asked) => Found>) {
    this.#query = query;
  }

  ask(asked: Asked): Promise<Found> {
    const { length } = this.#waiting;
    if (length >= waitingMax) return Promise.reject(tooBusy(`${length} calls are waiting already`));
    return new Promise((tell, fail) => {
      this.#waiting.push({ asked, tell, fail });
      if (!this.#isAsking) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isAsking = true;
    while (this.#waiting.length > 0) {
      await within(this.#answer(this.#waiting.splice(0, askedAtOnce)), aloneMs);
    }
    this.#isAsking = false;
  }

  async #answer(askers: readonly Asker<Asked, Found>[]): Promise<void> {
    try {
      const read = await this.#query(askers.map(({ asked }) => asked));
      for (const asker of askers) tellOne(asker, read);
    } catch (thrown) {
      for (const { fail } of askers) fail(thrown);
    }
  }
}

function tellOne<Asked, Found>(
  { asked, tell, fail }: Asker<Asked, Found>,
  read: (one: Asked) => Found,
): void {
  try {
    tell(read(asked));
  } catch (thrown) {
    fail(thrown);
  }
}

/** A list of values to a power of two: a statement for every length would be compiled and kept. */
export function padded<Value>(values: readonly Value[]): readonly Value[] {
  return [...values, ...values].slice(0, 2 ** Math.ceil(Math.log2(values.length)));
}
