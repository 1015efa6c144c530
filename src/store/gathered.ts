import { within } from '../core/within.ts';
import { tooBusy } from './turns.ts';

/** Questions in one query: ten thousand need twenty queries, and none of these takes long. */
const askedAtOnce = 512;
/** Enough for all keys of a busy process at once; clients that invent keys get no more memory. */
const waitingMax = 10_000;
/** After this long, the next query starts without waiting for a slow one. */
const aloneMs = 1_000;

interface Asker<Asked, Found> {
  readonly asked: Asked;
  readonly tell: (found: Found) => void;
  readonly fail: (thrown: unknown) => void;
}

/**
 * Small questions that come in herds: whenever any key is changed, every process forgets all keys
 * it knew and asks for each again. Questions that come while a query runs share the next one; no
 * answer is older than its question.
 */
export class Gathered<Asked, Found> {
  readonly #query: (asked: readonly Asked[]) => Promise<(one: Asked) => Found>;
  #waiting: Asker<Asked, Found>[] = [];
  #isAsking = false;

  /** The query's result is read for each question alone: one that cannot be read fails alone. */
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

/** Repeats values up to a power of two: a statement for every length would be compiled and kept. */
export function padded<Value>(values: readonly Value[]): readonly Value[] {
  return [...values, ...values].slice(0, 2 ** Math.ceil(Math.log2(values.length)));
}
