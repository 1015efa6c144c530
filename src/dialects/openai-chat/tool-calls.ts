/** Normalizes tool calls so that every call has its own index, ID, and type. */
import {
  bufferedArgumentsMax,
  toolCallNamesLengthMax,
  toolCallsPerAnswerMax,
} from '../../core/bounds.ts';
import {
  fieldsOf,
  isNonEmptyString,
  isObject,
  type JsonObject,
  lengthOf,
  textOf,
} from '../../core/json.ts';
import { MalformedAnswer } from '../failure.ts';
import { newCallId } from '../normalize/responses/identity.ts';
import { isCutJson, JsonEndScanner } from '../normalize/responses/tool-arguments.ts';
import { ownSignature, prefixSignature } from '../normalize/signature.ts';

/** Some servers give several calls the same ID, which makes their results ambiguous. */
function uniqueId(id: unknown, isUsed: boolean): string {
  return isNonEmptyString(id) && !isUsed ? id : newCallId();
}

/**
 * Makes the arguments a string: some servers send the object itself, or null if there are none. GLM
 * on vLLM sends the string "null" if there are none. In later deltas, "null" is part of the
 * arguments.
 */
function normalizeArguments(body: JsonObject, isBeginning: boolean): boolean {
  const { arguments: json } = body;
  const isNone = json === null || (isBeginning && json === 'null');
  if (!isNone && (json === undefined || typeof json === 'string')) return false;
  body.arguments = isNone ? '' : JSON.stringify(json);
  return true;
}

function normalizeOpening(call: JsonObject, id: string): boolean {
  let changed = call.id !== id;
  call.id = id;
  if (!isNonEmptyString(call.type)) {
    call.type = 'function';
    changed = true;
  }
  return changed;
}

/** True if a call has `function` or `custom`. Clients crash on a call that has neither. */
function hasBody({ function: body, custom }: JsonObject): boolean {
  return isObject(body) || isObject(custom);
}

/** Some servers send an empty call if there is no call. In a stream, the name may follow. */
function isEmpty({ custom }: JsonObject, { name, arguments: json }: JsonObject): boolean {
  return !isNonEmptyString(name) && !json && !custom;
}

function isCall(call: unknown): call is JsonObject {
  return isObject(call) && hasBody(call) && !isEmpty(call, fieldsOf(call.function));
}

/** Normalizes the calls of a complete message. */
export function normalizeToolCalls(calls: readonly unknown[]): JsonObject[] {
  const ids = new Set<unknown>();
  return calls.filter(isCall).map((call, position) => {
    normalizeOpening(call, uniqueId(call.id, ids.has(call.id)));
    ids.add(call.id);
    if (isObject(call.function)) normalizeArguments(call.function, true);
    // OpenAI sends no `index` here, and some servers send the same one in every call.
    if (call.index !== undefined) call.index = position;
    return call;
  });
}

/** The arguments of a call that has none. Clients can't parse an empty string. */
const noArguments = '{}';

/**
 * Fills in missing arguments for the calls of a message that finished normally. Not for messages
 * that were cut off, whose arguments may have been lost.
 */
export function completeToolCalls(calls: readonly JsonObject[]): void {
  for (const { function: body } of calls) {
    if (isObject(body) && !isNonEmptyString(body.arguments)) body.arguments = noArguments;
  }
}

/** True if the arguments of a complete message's call were cut off. */
export function isCutCall({ function: body }: JsonObject): boolean {
  return isCutJson(textOf(fieldsOf(body).arguments));
}

function hasIndex({ index }: JsonObject): boolean {
  return index !== undefined && index !== null;
}

interface AssembledCall {
  /** The upstream's ID, or '' if it sent none. */
  readonly upstreamId: string;
  /** The index sent to the client; undefined while the call is buffered until its name arrives. */
  index: number | undefined;
  name: string;
  /** The fields received before the name. */
  bufferedFields: JsonObject;
  /**
   * An empty object, or the start of one, that hasn't been sent. If it is the complete arguments,
   * it is sent at the end. If it is a placeholder before the real arguments, it is never sent.
   */
  held: string;
  /** True once any arguments have been sent. */
  hasArguments: boolean;
  /** True if the arguments start with `{`. */
  isObject: boolean;
  readonly end: JsonEndScanner;
}

/** True if a call has any content. A server may announce a call and then send none. */
function hasStarted({ index, name, held, hasArguments }: AssembledCall): boolean {
  return index !== undefined || name !== '' || held !== '' || hasArguments;
}

/** An empty object, or the start of one. */
const emptyObject = /^\s*(\{\s*(\}\s*)?)?$/;
/** No server sends a longer empty object. The limit bounds the search in every delta. */
const heldLengthMax = 64;
const emptyBeforeReal = /^\s*\{\s*\}\s*(?=\{)/;

/**
 * Returns the part of `json` that can be sent now. Proxies that translate from Anthropic may send
 * an empty object before the real arguments, so an empty object is held until the call ends.
 * Anything after complete arguments is dropped, because vLLM's parser for xLAM repeats them.
 */
function emittablePart(call: AssembledCall, json: string): string {
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

function withArguments(call: JsonObject, json: string): JsonObject {
  return json === ''
    ? call
    : { ...call, function: { ...fieldsOf(call.function), arguments: json } };
}

/** Assembles the tool calls of one choice from its deltas. */
export class ToolCallAssembly {
  /** Keyed by the value that the upstream sent: some servers send the index as a string. */
  readonly #byUpstreamIndex = new Map<unknown, AssembledCall>();
  readonly #byId = new Map<string, AssembledCall>();
  readonly #calls: AssembledCall[] = [];
  #last: AssembledCall | undefined;
  #sentCalls = 0;
  #namesLength = 0;
  #bufferedLength = 0;
  readonly #offered: readonly string[];

  /** `offered`: the names of all tools, to recognize a name that arrives in fragments. */
  constructor(offered: readonly string[] = []) {
    this.#offered = offered;
  }

  get hasCalls(): boolean {
    return this.#calls.some(hasStarted);
  }

  /** True if a tool call has started but not been sent to the client yet. */
  get isWaiting(): boolean {
    return this.#calls.some((call) => call.index === undefined && hasStarted(call));
  }

  /** True if the arguments of a call have begun and not ended. */
  get hasOpenArguments(): boolean {
    return this.#calls.some(({ end, held }) => end.isCut || isCutJson(held));
  }

  /**
   * Normalizes the `tool_calls` of one delta. Omits calls that have no name yet. Returns the same
   * list if nothing changed.
   */
  normalize(calls: readonly JsonObject[]): readonly JsonObject[] {
    const touched = new Set<AssembledCall>();
    const sent: JsonObject[] = [];
    let changed = false;
    for (const [position, call] of calls.entries()) {
      const body = fieldsOf(call.function);
      const known = this.#find(call, body, calls.length > 1 ? position : undefined);
      if (known === undefined && !isNonEmptyString(call.id) && isEmpty(call, body)) {
        changed = true;
        continue;
      }
      const isNew = known === undefined || this.#startsAnother(known, call, body, touched);
      const isUsed = isNonEmptyString(call.id) && this.#byId.has(call.id);
      const open = isNew ? this.#open(call, body) : known;
      const isNormalized = isNew
        ? normalizeOpening(call, uniqueId(call.id, isUsed))
        : this.#normalizeContinuation(call, body, open);
      changed = normalizeArguments(body, !open.hasArguments) || isNormalized || changed;
      if (isNonEmptyString(body.arguments)) {
        const emittable = emittablePart(open, body.arguments);
        if (emittable !== body.arguments) changed = true;
        body.arguments = emittable;
      }
      const merged = open.index === undefined ? this.#takeName(open, call, body) : call;
      if (merged !== call || call.index !== open.index) changed = true;
      if (merged !== undefined && !hasBody(merged)) changed = true;
      else if (merged !== undefined) {
        merged.index = open.index;
        sent.push(merged);
      }
      touched.add(open);
      this.#last = open;
    }
    return changed ? sent : calls;
  }

  /**
   * Returns the missing parts of the calls of a choice that has ended. If the choice was cut off,
   * returns only held arguments.
   */
  complete(isCut: boolean): JsonObject[] {
    const calls: JsonObject[] = [];
    for (const call of this.#calls) {
      const isNameless = call.index === undefined;
      if (isNameless && (isCut || !hasStarted(call))) continue;
      const opening = isNameless
        ? { ...call.bufferedFields, index: this.#assignIndex(call) }
        : undefined;
      const json = call.hasArguments ? '' : call.held || (isCut ? '' : noArguments);
      if (opening === undefined && json === '') continue;
      calls.push(withArguments(opening ?? { index: call.index }, json));
      call.hasArguments = true;
    }
    return calls;
  }

  /**
   * `position`: the call's position in a delta with several calls, for calls without index, ID, or
   * name.
   */
  #find(
    call: JsonObject,
    body: JsonObject,
    position: number | undefined,
  ): AssembledCall | undefined {
    const byIndex = this.#byUpstreamIndex.get(call.index);
    if (byIndex !== undefined) return byIndex;
    if (isNonEmptyString(call.id)) return hasIndex(call) ? undefined : this.#byId.get(call.id);
    if (isNonEmptyString(body.name)) return this.#callToContinue(body.name);
    return position === undefined ? this.#last : (this.#calls[position] ?? this.#last);
  }

  /**
   * True if a delta opens a call other than the known one. Some servers send every parallel call
   * with index 0, and some of them even with the same ID. Only a delta with a name can open a call,
   * because some servers change the ID within a call. Gemini's OpenAI-style endpoint opens each of
   * its calls with a name and the ID ''.
   */
  #startsAnother(
    known: AssembledCall,
    call: JsonObject,
    body: JsonObject,
    touched: ReadonlySet<AssembledCall>,
  ): boolean {
    if (!isNonEmptyString(body.name) || known.name === '') return false;
    if (!touched.has(known) && this.#continuesName(known, body.name)) return false;
    if (body.name !== known.name || touched.has(known)) return true;
    return isNonEmptyString(call.id) ? call.id !== known.upstreamId : call.id === '';
  }

  #open(call: JsonObject, body: JsonObject): AssembledCall {
    const isFreeForm = isObject(call.custom);
    const open: AssembledCall = {
      upstreamId: textOf(call.id),
      index: undefined,
      name: textOf(body.name),
      bufferedFields: {},
      held: '',
      // A free-form call has text instead of arguments.
      hasArguments: isFreeForm,
      isObject: false,
      end: new JsonEndScanner(),
    };
    if (isFreeForm || this.#isNamed(open)) this.#assignIndex(open);
    this.#countNameLength(open.upstreamId + open.name);
    this.#calls.push(open);
    if (hasIndex(call)) this.#byUpstreamIndex.set(call.index, open);
    if (open.upstreamId !== '') this.#byId.set(open.upstreamId, open);
    return open;
  }

  /** Assigns the next index. Clients keep calls in an array, which must not have holes. */
  #assignIndex(open: AssembledCall): number {
    const index = this.#sentCalls;
    this.#sentCalls += 1;
    open.index = index;
    open.bufferedFields = {};
    return index;
  }

  /**
   * Buffers a call until its name arrives, because clients read the name from the first delta.
   * Returns the merged call, or undefined while there is no name.
   */
  #takeName(open: AssembledCall, call: JsonObject, body: JsonObject) {
    const { bufferedFields, name } = open;
    this.#bufferedLength += lengthOf(body.arguments);
    if (this.#bufferedLength > bufferedArgumentsMax) {
      throw new MalformedAnswer('tool call arguments without a tool name');
    }
    const before = fieldsOf(bufferedFields.function);
    const json = [before.arguments, body.arguments].filter(isNonEmptyString).join('');
    const named = { ...body, ...before, name, arguments: json };
    const merged: JsonObject = { ...call, ...bufferedFields, function: named };
    const isNamed = this.#isNamed(open);
    if (isNamed) this.#assignIndex(open);
    else open.bufferedFields = merged;
    return isNamed ? merged : undefined;
  }

  /**
   * True if the call's name is complete. Moonshot may send a long name in fragments, so more of the
   * name may follow until the arguments arrive.
   */
  #isNamed({ name, held, hasArguments }: AssembledCall): boolean {
    if (name === '' || held !== '' || hasArguments) return name !== '';
    return this.#offered.includes(name) || !this.#isNamePrefix(name);
  }

  /** True if `fragment` continues a name that isn't yet the name of a tool. */
  #continuesName({ index, name }: AssembledCall, fragment: string): boolean {
    return index === undefined && name !== '' && this.#isNamePrefix(name + fragment);
  }

  #callToContinue(fragment: string): AssembledCall | undefined {
    return this.#last && this.#continuesName(this.#last, fragment) ? this.#last : undefined;
  }

  #isNamePrefix(name: string): boolean {
    return this.#offered.some((each) => each.startsWith(name));
  }

  #countNameLength(text: string): void {
    this.#namesLength += text.length;
    const isTooLong = this.#namesLength > toolCallNamesLengthMax;
    if (isTooLong || this.#calls.length >= toolCallsPerAnswerMax) {
      throw new MalformedAnswer('too many tool calls');
    }
  }

  /** Removes repeated IDs and names, which clients would append to the first ones. */
  #normalizeContinuation(call: JsonObject, body: JsonObject, open: AssembledCall): boolean {
    let changed = false;
    if (call.id !== undefined) {
      call.id = undefined;
      changed = true;
    }
    if (body.name === undefined) return changed;
    if (isNonEmptyString(body.name) && (open.name === '' || this.#continuesName(open, body.name))) {
      this.#countNameLength(body.name);
      open.name += body.name;
      return changed;
    }
    body.name = undefined;
    return true;
  }
}

// Google's OpenAI-style endpoint puts the signature of a call in `extra_content`. Clients that keep
// calls unchanged send the signature back, even if they drop everything else.

/**
 * Returns the field with a call's signature, or an empty object if the signature isn't Google's.
 */
export function signedCall(signature: string): object {
  const original = ownSignature('gemini', signature);
  return original === undefined
    ? {}
    : { extra_content: { google: { thought_signature: original } } };
}

export function googleSignature(call: object): string | undefined {
  const { google } = fieldsOf(fieldsOf(call).extra_content);
  const { thought_signature: signature } = fieldsOf(google);
  return isNonEmptyString(signature) ? prefixSignature('gemini', signature) : undefined;
}
