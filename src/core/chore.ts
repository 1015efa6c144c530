/** Something a part wants done again and again; wire/chores.ts keeps the clock. */
export interface Chore {
  readonly everyMs: number;
  /** May fail: the next round tries again. */
  run(): Promise<void>;
}
