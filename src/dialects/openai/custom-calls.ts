/**
 * The calls of free-form tools that an upstream knows as functions, told as the calls that they are
 * to the client. The text comes wrapped in JSON, so a stream tells it when it is whole.
 */
import { waitingArgumentsMax } from '../../core/bounds.ts';
import { type Fields, fieldsOf, isText, lengthOf, objectsIn, textOf } from '../../core/json.ts';
import { freeFormInput } from '../ask/tools/free-form.ts';
import { UnusableAnswer } from '../unusable-answer.ts';

/** By their names. */
type CustomTools = ReadonlySet<string>;

/** Those of a stream. */
export class CustomCalls {
  readonly #names: CustomTools;
  /** What waits, by choice and index of its call. */
  readonly #json = new Map<unknown, Map<unknown, string>>();
  #length = 0;

  constructor(names: CustomTools) {
    this.#names = names;
  }

  /** What can be told of a delta's calls now; at the end of the choice, all that waited too. */
  tell(calls: readonly Fields[], isEnd: boolean, choice: unknown = 0): readonly Fields[] {
    const told = calls
      .filter((call) => !this.#mustWait(call, choice))
      .map((call) => toldAs(call, '', this.#names));
    const waiting = isEnd ? this.#json.get(choice) : undefined;
    for (const [index, json] of waiting ?? []) {
      if (json !== '') told.push({ index, custom: { input: freeFormInput(json) } });
      // What some servers add after an end is of the same call.
      waiting?.set(index, '');
    }
    return told;
  }

  #mustWait({ index, function: body }: Fields, choice: unknown): boolean {
    const { name, arguments: json } = fieldsOf(body);
    const isOpening = isText(name) && this.#names.has(name);
    const waiting = this.#json.get(choice) ?? new Map<unknown, string>();
    const before = isOpening ? '' : waiting.get(index);
    if (before === undefined) return false;
    this.#length += lengthOf(json);
    if (this.#length > waitingArgumentsMax) {
      throw new UnusableAnswer('longer texts for free-form tools than can wait for their ends');
    }
    this.#json.set(choice, waiting.set(index, before + textOf(json)));
    return !isOpening;
  }
}

/** Those of a whole message, in place. */
export function tellCustomCalls(message: Fields, names: CustomTools | undefined): void {
  if (!names || !Array.isArray(message.tool_calls)) return;
  message.tool_calls = objectsIn(message.tool_calls).map((call) =>
    toldAs(call, freeFormInput(textOf(fieldsOf(call.function).arguments)), names),
  );
}

function toldAs(call: Fields, input: string, names: CustomTools): Fields {
  const { name } = fieldsOf(call.function);
  if (!isText(name) || !names.has(name)) return call;
  return { ...call, type: 'custom', function: undefined, custom: { name, input } };
}
