import { UnusableAnswer } from '../unusable-answer.ts';

/** All of it or a piece. */
const emptyObject = /^[\s{}]*$/;
const blank = /^\s*$/;

/** Calls that a client was told to be over before their arguments were. */
export class EndedCalls {
  /** What may follow without a loss. */
  readonly #rest = new Map<number, RegExp>();

  /** `isEmpty`: none of its arguments came before. */
  add(call: number, isEmpty: boolean): void {
    this.#rest.set(call, isEmpty ? emptyObject : blank);
  }

  /** A tool that is run with half of its input may do harm: then this is no answer. */
  refuseRest(call: number, json: string): void {
    if (this.#rest.get(call)?.test(json) ?? true) return;
    throw new UnusableAnswer('arguments of a tool call behind its end');
  }
}
