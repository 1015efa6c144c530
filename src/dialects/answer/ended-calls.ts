import { UnusableAnswer } from '../unusable-answer.ts';

/** An empty object, or any piece of one. */
const emptyObject = /^[\s{}]*$/;
const blank = /^\s*$/;

/** Calls that the client was told are over, though more of their arguments may still come. */
export class EndedCalls {
  /** By call: the arguments that may still come without the client missing anything. */
  readonly #rest = new Map<number, RegExp>();

  /** `isEmpty`: no arguments of the call came before. */
  add(call: number, isEmpty: boolean): void {
    this.#rest.set(call, isEmpty ? emptyObject : blank);
  }

  /** Throws if a call's arguments go on: a tool that is run with half of its input may do harm. */
  refuseRest(call: number, json: string): void {
    if (this.#rest.get(call)?.test(json) ?? true) return;
    throw new UnusableAnswer('arguments of a tool call behind its end');
  }
}
