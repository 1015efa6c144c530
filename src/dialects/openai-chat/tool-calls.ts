import {
  bufferedArgumentsMax,
  toolCallNamesLengthMax,
  toolCallsPerAnswerMax,
} from '../../core/bounds.ts';
import { type Fields, fieldsOf, isObject, isText, lengthOf, textOf } from '../../core/json.ts';
import { MalformedAnswer } from '../failure.ts';
import { newCallId } from '../normalize/responses/identity.ts';
import { JsonEndScanner } from '../normalize/responses/tool-arguments.ts';
import { markSignature, ownSignature } from '../normalize/signature.ts';

/** Tool calls as clients can put them together: every call with its own index, id and type. */

/** Some servers give several calls one id, and then nobody could tell their results apart. */
function ownId(id: unknown, isUsed: boolean): string {
  return isText(id) && !isUsed ? id : newCallId();
}

/**
 * Arguments are text; some servers send the object itself, or null for none. GLM on vLLM sends the
 * text `null` for none; after the beginning of other arguments, that text is a piece of them.
 */
function normalizeArguments(body: Fields, isBeginning: boolean): boolean {
  const { arguments: json } = body;
  const isNone = json === null || (isBeginning && json === 'null');
  if (!isNone && (json === undefined || typeof json === 'string')) return false;
  body.arguments = isNone ? '' : JSON.stringify(json);
  return true;
}

function normalizeOpening(call: Fields, id: string): boolean {
  let changed = call.id !== id;
  call.id = id;
  if (!isText(call.type)) {
    call.type = 'function';
    changed = true;
  }
  return changed;
}

/** Whether a call has a `function` or a `custom`: clients fail at a call that has neither. */
function hasBody({ function: body, custom }: Fields): boolean {
  return isObject(body) || isObject(custom);
}

/** Some servers write an empty call where there is none; in a stream, the name may yet follow. */
function isEmpty({ custom }: Fields, { name, arguments: json }: Fields): boolean {
  return !isText(name) && !json && !custom;
}

function isCall(call: unknown): call is Fields {
  return isObject(call) && hasBody(call) && !isEmpty(call, fieldsOf(call.function));
}

/** Mends the calls of a whole message, to which no pieces follow. */
export function normalizeToolCalls(calls: readonly unknown[]): Fields[] {
  const ids = new Set<unknown>();
  return calls.filter(isCall).map((call, position) => {
    normalizeOpening(call, ownId(call.id, ids.has(call.id)));
    ids.add(call.id);
    if (isObject(call.function)) normalizeArguments(call.function, true);
    // OpenAI writes no `index` here, and some servers write the same one into every call.
    if (call.index !== undefined) call.index = position;
    return call;
  });
}

/** The arguments of a call without parameters; no client can parse the empty text. */
const noArguments = '{}';

/** Only for a message that ended with its calls: one that was cut may have lost the arguments. */
export function completeToolCalls(calls: readonly Fields[]): void {
  for (const { function: body } of calls) {
    if (isObject(body) && !isText(body.arguments)) body.arguments = noArguments;
  }
}

function hasIndex({ index }: Fields): boolean {
  return index !== undefined && index !== null;
}

interface OpenCall {
  /** The id as the upstream wrote it; '' when it gave none. */
  readonly upstreamId: string;
  /** The index that the client knows the call by; undefined while the call waits for its name. */
  index: number | undefined;
  name: string;
  /** What came before the name. */
  waiting: Fields;
  /** An empty object: perhaps all arguments, or one before the real ones. Told last, or never. */
  held: string;
  /** Of the arguments that were told: whether there are any, began as an object, and are whole. */
  hasArguments: boolean;
  isObject: boolean;
  readonly end: JsonEndScanner;
}

/** Whether a call has any content: a server may announce a call and then send none. */
function isBegun({ index, name, held, hasArguments }: OpenCall): boolean {
  return index !== undefined || name !== '' || held !== '' || hasArguments;
}

/** An empty object, or the beginning of one. */
const emptyObject = /^\s*(\{\s*(\}\s*)?)?$/;
/** No server writes a longer empty object; a longer text would be searched with every piece. */
const heldLengthMax = 64;
const emptyBeforeReal = /^\s*\{\s*\}\s*(?=\{)/;

/**
 * What a client is told now of a piece of arguments. Proxies that translate from Anthropic may put
 * an empty object before the real arguments, so an empty object waits until it is certain that
 * nothing follows. Whatever follows complete arguments is dropped: vLLM's parser for xLAM repeats
 * them.
 */
function emittablePart(call: OpenCall, json: string): string {
  if (call.hasArguments) {
    if (call.isObject && call.end.isComplete) return '';
    call.end.push(json);
    return json;
  }
  const all = call.held + json;
  call.held = all.length <= heldLengthMax && emptyObject.test(all) ? all : '';
  if (call.held !== '') return '';
  const real = all.replace(emptyBeforeReal, '');
  call.hasArguments = true;
  call.isObject = real.trimStart().startsWith('{');
  call.end.push(real);
  return real;
}

function withArguments(call: Fields, json: string): Fields {
  return json === ''
    ? call
    : { ...call, function: { ...fieldsOf(call.function), arguments: json } };
}

/** The tool calls of one choice, put together delta by delta. */
export class ToolCallAssembly {
  /** Keyed by whatever the upstream wrote: some servers write the index as a text. */
  readonly #byUpstreamIndex = new Map<unknown, OpenCall>();
  readonly #byId = new Map<string, OpenCall>();
  readonly #calls: OpenCall[] = [];
  #last: OpenCall | undefined;
  #shown = 0;
  #namesLength = 0;
  #waitingLength = 0;
  readonly #offered: readonly string[];

  /** `offered`: the names of all tools, to recognise a name that comes in pieces. */
  constructor(offered: readonly string[] = []) {
    this.#offered = offered;
  }

  get hasCalls(): boolean {
    return this.#calls.some(isBegun);
  }

  /** Whether a call has begun that the client was not told of. */
  get isWaiting(): boolean {
    return this.#calls.some((call) => call.index === undefined && isBegun(call));
  }

  /**
   * Mends the `tool_calls` of one delta, and leaves out calls that have no name yet; answers the
   * very same list if nothing had to change.
   */
  normalize(calls: readonly Fields[]): readonly Fields[] {
    const touched = new Set<OpenCall>();
    const shown: Fields[] = [];
    let changed = false;
    for (const [position, call] of calls.entries()) {
      const body = fieldsOf(call.function);
      const known = this.#find(call, body, calls.length > 1 ? position : undefined);
      if (known === undefined && !isText(call.id) && isEmpty(call, body)) {
        changed = true;
        continue;
      }
      const isNew = known === undefined || this.#startsAnother(known, call, body, touched);
      const isUsed = isText(call.id) && this.#byId.has(call.id);
      const open = isNew ? this.#open(call, body) : known;
      const isNormalized = isNew
        ? normalizeOpening(call, ownId(call.id, isUsed))
        : this.#normalizeContinuation(call, body, open);
      changed = normalizeArguments(body, !open.hasArguments) || isNormalized || changed;
      if (isText(body.arguments)) {
        const emittable = emittablePart(open, body.arguments);
        if (emittable !== body.arguments) changed = true;
        body.arguments = emittable;
      }
      const merged = open.index === undefined ? this.#takeName(open, call, body) : call;
      if (merged !== call || call.index !== open.index) changed = true;
      if (merged !== undefined && !hasBody(merged)) changed = true;
      else if (merged !== undefined) {
        merged.index = open.index;
        shown.push(merged);
      }
      touched.add(open);
      this.#last = open;
    }
    return changed ? shown : calls;
  }

  /** What the calls of a choice lack when it ends; if it was cut, only what was held back. */
  complete(isCut: boolean): Fields[] {
    const calls: Fields[] = [];
    for (const call of this.#calls) {
      const isNameless = call.index === undefined;
      if (isNameless && (isCut || !isBegun(call))) continue;
      const opening = isNameless ? { ...call.waiting, index: this.#show(call) } : undefined;
      const json = call.hasArguments ? '' : call.held || (isCut ? '' : noArguments);
      if (opening === undefined && json === '') continue;
      calls.push(withArguments(opening ?? { index: call.index }, json));
      call.hasArguments = true;
    }
    return calls;
  }

  /** `place`: the call's position among several in a delta, for one without index, id and name. */
  #find(call: Fields, body: Fields, position: number | undefined): OpenCall | undefined {
    const byIndex = this.#byUpstreamIndex.get(call.index);
    if (byIndex !== undefined) return byIndex;
    if (isText(call.id)) return hasIndex(call) ? undefined : this.#byId.get(call.id);
    if (isText(body.name)) return this.#restOf(body.name);
    return position === undefined ? this.#last : (this.#calls[position] ?? this.#last);
  }

  /**
   * Whether a delta opens another call than the known one. Some servers send every parallel call
   * with index 0, even under one id. Only a delta with a name can open a call: some servers change
   * the id from delta to delta of one call. Gemini's compatible endpoint opens each of its calls
   * with a name and the id ''.
   */
  #startsAnother(
    known: OpenCall,
    call: Fields,
    body: Fields,
    touched: ReadonlySet<OpenCall>,
  ): boolean {
    if (!isText(body.name) || known.name === '') return false;
    if (!touched.has(known) && this.#isRest(known, body.name)) return false;
    if (body.name !== known.name || touched.has(known)) return true;
    return isText(call.id) ? call.id !== known.upstreamId : call.id === '';
  }

  #open(call: Fields, body: Fields): OpenCall {
    const isFreeForm = isObject(call.custom);
    const open: OpenCall = {
      upstreamId: textOf(call.id),
      index: undefined,
      name: textOf(body.name),
      waiting: {},
      held: '',
      // A free-form call has a text instead of arguments.
      hasArguments: isFreeForm,
      isObject: false,
      end: new JsonEndScanner(),
    };
    if (isFreeForm || this.#isNamed(open)) this.#show(open);
    this.#countNameLength(open.upstreamId + open.name);
    this.#calls.push(open);
    if (hasIndex(call)) this.#byUpstreamIndex.set(call.index, open);
    if (open.upstreamId !== '') this.#byId.set(open.upstreamId, open);
    return open;
  }

  /** Gives the call the next index: clients keep calls in an array, which may have no hole. */
  #show(open: OpenCall): number {
    const index = this.#shown;
    this.#shown += 1;
    open.index = index;
    open.waiting = {};
    return index;
  }

  /**
   * Clients read the name where a call begins, so all that comes before it waits and goes out with
   * the delta that brings it; undefined while there is none.
   */
  #takeName(open: OpenCall, call: Fields, body: Fields) {
    const { waiting, name } = open;
    this.#waitingLength += lengthOf(body.arguments);
    if (this.#waitingLength > bufferedArgumentsMax) {
      throw new MalformedAnswer('arguments of tool calls that have no names');
    }
    const before = fieldsOf(waiting.function);
    const json = [before.arguments, body.arguments].filter(isText).join('');
    const named = { ...body, ...before, name, arguments: json };
    const merged: Fields = { ...call, ...waiting, function: named };
    const isNamed = this.#isNamed(open);
    if (isNamed) this.#show(open);
    else open.waiting = merged;
    return isNamed ? merged : undefined;
  }

  /** Moonshot may send a long name in pieces: until arguments come, the rest of it may follow. */
  #isNamed({ name, held, hasArguments }: OpenCall): boolean {
    if (name === '' || held !== '' || hasArguments) return name !== '';
    return this.#offered.includes(name) || !this.#begins(name);
  }

  /** Whether `piece` continues a name that is not yet the name of a tool. */
  #isRest({ index, name }: OpenCall, piece: string): boolean {
    return index === undefined && name !== '' && this.#begins(name + piece);
  }

  #restOf(piece: string): OpenCall | undefined {
    return this.#last && this.#isRest(this.#last, piece) ? this.#last : undefined;
  }

  #begins(name: string): boolean {
    return this.#offered.some((each) => each.startsWith(name));
  }

  #countNameLength(text: string): void {
    this.#namesLength += text.length;
    const isTooMuch = this.#namesLength > toolCallNamesLengthMax;
    if (isTooMuch || this.#calls.length >= toolCallsPerAnswerMax) {
      throw new MalformedAnswer('more tool calls than anybody could run');
    }
  }

  /** Clients append what later deltas bring, so an id or a name said twice would be doubled. */
  #normalizeContinuation(call: Fields, body: Fields, open: OpenCall): boolean {
    let changed = false;
    if (call.id !== undefined) {
      call.id = undefined;
      changed = true;
    }
    if (body.name === undefined) return changed;
    if (isText(body.name) && (open.name === '' || this.#isRest(open, body.name))) {
      this.#countNameLength(body.name);
      open.name += body.name;
      return changed;
    }
    body.name = undefined;
    return true;
  }
}

/**
 * Where Google's own OpenAI-style endpoint puts the signature of a call, for clients that keep
 * calls as they are and drop everything else.
 */

/** The field that carries the signature on a call; none for a signature that is not Google's. */
export function signedCall(signature: string): object {
  const own = ownSignature('gemini', signature);
  return own === undefined ? {} : { extra_content: { google: { thought_signature: own } } };
}

export function googleSignature(call: object): string | undefined {
  const { google } = fieldsOf(fieldsOf(call).extra_content);
  const { thought_signature: signature } = fieldsOf(google);
  return isText(signature) ? markSignature('gemini', signature) : undefined;
}
