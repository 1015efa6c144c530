import { UnusableAnswer } from '../unusable-answer.ts';

/** An empty object, or any piece of one. */
const emptyObject = /^[\s{}]*$/;
const blank = /^\s*$/;

/** Calls of which the client was told that they are over, though more arguments may still come. */
export class EndedCalls {
  /** By call: what may still come of it without being lost on the client. */
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
