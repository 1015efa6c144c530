import { MalformedAnswer } from '../../failure.ts';

const quote = 0x22;
const backslash = 0x5c;
const openingBrace = 0x7b;

const otherStart = /^\s*[^\s{[]/;

function isOpening(code: number): boolean {
  return code === openingBrace || code === 0x5b;
}

function isClosing(code: number): boolean {
  return code === 0x7d || code === 0x5d;
}

/**
 * Detects where a JSON object or list ends in a text that comes in pieces. A text that starts
 * differently never ends: a model may write code in place of JSON.
 */
export class JsonEndScanner {
  #isNotContainer = false;
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  /** True if the text started as an object. */
  isObject = false;
  isComplete = false;

  /** Returns the number of characters in the piece that come before the end. */
  push(piece: string): number {
    if (this.isComplete) return 0;
    if (this.#depth === 0) this.#isNotContainer ||= otherStart.test(piece);
    if (this.#isNotContainer) return piece.length;
    for (let index = 0; index < piece.length; index += 1) {
      const code = piece.charCodeAt(index);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#inString) {
        if (code === backslash) this.#isEscaped = true;
        else if (code === quote) this.#inString = false;
      } else if (code === quote) this.#inString = true;
      else if (isOpening(code)) {
        if (this.#depth === 0) this.isObject = code === openingBrace;
        this.#depth += 1;
      } else if (isClosing(code)) {
        this.#depth -= 1;
        if (this.#depth > 0) continue;
        this.isComplete = true;
        return index + 1;
      }
    }
    return piece.length;
  }
}

/** Matches an empty object, or any piece of one. */
const emptyObject = /^[\s{}]*$/;
const blank = /^\s*$/;

/** Calls that were reported as complete, though more of their arguments may still come. */
export class EndedCalls {
  /** By call: the arguments that may still come without changing the input. */
  readonly #allowedRest = new Map<number, RegExp>();

  /** `isEmpty` means that the call had no arguments so far. */
  add(call: number, isEmpty: boolean): void {
    this.#allowedRest.set(call, isEmpty ? emptyObject : blank);
  }

  /** Throws if a call's arguments continue: a tool that runs with half its input may do harm. */
  rejectTrailing(call: number, json: string): void {
    if (this.#allowedRest.get(call)?.test(json) ?? true) return;
    throw new MalformedAnswer('arguments of a tool call after its end');
  }
}
