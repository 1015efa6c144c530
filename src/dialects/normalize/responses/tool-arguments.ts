import { isObject, type JsonObject, textOf } from '../../../core/json.ts';
import { MalformedAnswer } from '../../failure.ts';
import { parseArguments } from '../exact-json.ts';

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
 * Detects the end of a JSON object or list in text that arrives in fragments. Text that doesn't
 * start with a brace or a bracket is never considered complete, because a model may write code
 * instead of JSON.
 */
export class JsonEndScanner {
  #isNotContainer = false;
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  /** True if the text starts as an object. */
  isObject = false;
  isComplete = false;

  /**
   * True if the text starts an object and doesn't end it: the arguments of a call were cut off.
   * Other text isn't JSON to begin with, so nothing tells whether it is complete.
   */
  get isCut(): boolean {
    return this.isObject && !this.isComplete;
  }

  /** Returns how many characters of the fragment belong to the object or list. */
  push(fragment: string): number {
    if (this.isComplete) return 0;
    if (this.#depth === 0) this.#isNotContainer ||= otherStart.test(fragment);
    if (this.#isNotContainer) return fragment.length;
    for (let index = 0; index < fragment.length; index += 1) {
      const code = fragment.charCodeAt(index);
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
    return fragment.length;
  }
}

/** True if complete text is an object that was cut off. */
export function isCutJson(text: string): boolean {
  const scanner = new JsonEndScanner();
  scanner.push(text);
  return scanner.isCut;
}

/** Matches an empty object or any fragment of one. */
const emptyObject = /^[\s{}]*$/;
const blank = /^\s*$/;

/**
 * Tracks calls that were reported as complete although more of their arguments may still arrive.
 */
export class EndedCalls {
  /**
   * For each call, a pattern for the fragments that may still arrive without changing the input.
   */
  readonly #allowedRest = new Map<number, RegExp>();

  /** `isEmpty`: the call has had no arguments so far. */
  add(call: number, isEmpty: boolean): void {
    this.#allowedRest.set(call, isEmpty ? emptyObject : blank);
  }

  /** Throws if a call's arguments continue: a tool that runs with half of its input may do harm. */
  rejectTrailing(call: number, json: string): void {
    if (this.#allowedRest.get(call)?.test(json) ?? true) return;
    throw new MalformedAnswer('more arguments for a tool call that had already ended');
  }
}

/** Returns arguments as an object, which Anthropic, Bedrock, and Gemini require. */
export function toolInput(json: string): JsonObject {
  if (json.trim() === '') return {};
  const value = parseArguments(json);
  return isObject(value) ? value : { arguments: value === undefined ? json : value };
}

/** Returns a start event's tool input as JSON; '' if it's missing or an empty object. */
export function inputText(input: unknown): string {
  const hasFields = isObject(input) && Object.keys(input).length > 0;
  return hasFields ? JSON.stringify(input) : textOf(input);
}
