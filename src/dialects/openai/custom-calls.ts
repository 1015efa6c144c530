/**
 * The calls of free-form tools that an upstream knows as functions, told as the calls that they are
 * to the client. The text comes wrapped in JSON, so a stream tells it when it is whole.
 */
import { waitingArgumentsMax } from '../../core/bounds.ts';
import { type Fields, fieldsOf, isText, objectsIn, textOf } from '../../core/json.ts';
import { EventTooLarge } from '../event-stream.ts';
import { customInput } from '../responses/tool-forms.ts';

/** By their names. */
type CustomTools = ReadonlySet<string>;

/** Those of one choice of a stream. */
export class CustomCalls {
  readonly #names: CustomTools;
  readonly #json = new Map<unknown, string>();
  #length = 0;

  constructor(names: CustomTools) {
    this.#names = names;
  }

  /** What can be told of a delta's calls now; at the end, all that waited too. */
  tell(calls: readonly Fields[], isEnd: boolean): readonly Fields[] {
    const told = calls
      .filter((call) => !this.#mustWait(call))
      .map((call) => toldAs(call, '', this.#names));
    if (!isEnd) return told;
    const texts = [...this.#json].map(([index, json]) => ({
      index,
      custom: { input: customInput(json) },
    }));
    this.#json.clear();
    return [...told, ...texts];
  }

  #mustWait({ index, function: body }: Fields): boolean {
    const { name, arguments: given } = fieldsOf(body);
    const isOpening = isText(name) && this.#names.has(name);
    const before = isOpening ? '' : this.#json.get(index);
    if (before === undefined) return false;
    const json = textOf(given);
    this.#length += json.length;
    if (this.#length > waitingArgumentsMax) throw new EventTooLarge('texts for free-form tools');
    this.#json.set(index, before + json);
    return !isOpening;
  }
}

/** Those of a whole message, in place. */
export function tellCustomCalls(message: Fields, names: CustomTools): void {
  if (!Array.isArray(message.tool_calls)) return;
  message.tool_calls = objectsIn(message.tool_calls).map((call) =>
    toldAs(call, customInput(textOf(fieldsOf(call.function).arguments)), names),
  );
}

function toldAs(call: Fields, input: string, names: CustomTools): Fields {
  const { name } = fieldsOf(call.function);
  if (!isText(name) || !names.has(name)) return call;
  return { ...call, type: 'custom', function: undefined, custom: { name, input } };
}
