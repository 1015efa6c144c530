/**
 * Upstreams know free-form tools as functions; this turns their calls back into free-form calls for
 * the client. The text comes wrapped in JSON, so a stream tells it only once it is whole.
 */
import { waitingArgumentsMax } from '../../core/bounds.ts';
import { type Fields, fieldsOf, isText, lengthOf, objectsIn, textOf } from '../../core/json.ts';
import { freeFormInput } from '../ask/tools/free-form.ts';
import { UnusableAnswer } from '../unusable-answer.ts';

/** The names of free-form tools. */
type CustomTools = ReadonlySet<string>;

/** Turns the calls of a stream back. */
export class CustomCalls {
  readonly #names: CustomTools;
  /** The JSON that waits, by choice and by index of its call. */
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
      // Some servers add more after the end; it belongs to the same call.
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

/** Turns the calls of a whole message back, in place. */
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
