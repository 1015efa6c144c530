/** Tool calls as clients can put them together: every call with its own index, id and type. */
import { callNamesLengthMax, callsPerAnswerMax } from '../../core/bounds.ts';
import { randomText } from '../../core/ids.ts';
import { isObject } from '../../core/json.ts';
import { EventTooLarge } from '../event-stream.ts';

/** Clients keep calls in an array by index; beyond this an index would only make holes in it. */
const callIndexMax = callsPerAnswerMax - 1;

function newCallId(): string {
  return `call_${randomText(24)}`;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** Arguments are text; some servers send the object itself, or null for none. */
function repairArguments(body: Record<string, unknown>): boolean {
  if (body.arguments === undefined || typeof body.arguments === 'string') return false;
  body.arguments = body.arguments === null ? '' : JSON.stringify(body.arguments);
  return true;
}

function repairOpening(call: Record<string, unknown>, id: string): boolean {
  let changed = call.id !== id;
  call.id = id;
  if (!isText(call.type)) {
    call.type = 'function';
    changed = true;
  }
  return changed;
}

/** The calls of a whole message, complete as they are. */
export function repairToolCalls(calls: readonly unknown[]): Record<string, unknown>[] {
  return calls.filter(isObject).map((call) => {
    repairOpening(call, isText(call.id) ? call.id : newCallId());
    if (isObject(call.function)) repairArguments(call.function);
    return call;
  });
}

interface OpenCall {
  /** As the upstream wrote it; '' when it gave none. */
  readonly upstreamId: string;
  /** Where the client has it. */
  readonly index: number;
  name: string;
}

/** The tool calls of one choice, put together delta by delta. */
export class ToolCallAssembly {
  readonly #byUpstreamIndex = new Map<number, OpenCall>();
  readonly #byId = new Map<string, OpenCall>();
  readonly #takenIndexes = new Set<number>();
  #last: OpenCall | undefined;
  #nextIndex = 0;
  #namesLength = 0;

  get hasCalls(): boolean {
    return this.#last !== undefined;
  }

  /** Mends the `tool_calls` of one delta in place; true if anything had to change. */
  repair(calls: readonly Record<string, unknown>[]): boolean {
    const touched = new Set<OpenCall>();
    let changed = false;
    for (const call of calls) {
      const body = isObject(call.function) ? call.function : {};
      const known = this.#find(call, body);
      const isNew = known === undefined || this.#startsAnother(known, call, body, touched);
      const open = isNew ? this.#open(call, body) : known;
      const mended = isNew
        ? repairOpening(call, open.upstreamId || newCallId())
        : this.#repairLater(call, body, open);
      if (call.index !== open.index) {
        call.index = open.index;
        changed = true;
      }
      changed = repairArguments(body) || mended || changed;
      touched.add(open);
      this.#last = open;
    }
    return changed;
  }

  #find(call: Record<string, unknown>, body: Record<string, unknown>): OpenCall | undefined {
    const byIndex =
      typeof call.index === 'number' ? this.#byUpstreamIndex.get(call.index) : undefined;
    if (byIndex !== undefined) return byIndex;
    if (isText(call.id)) return call.index === undefined ? this.#byId.get(call.id) : undefined;
    return isText(body.name) ? undefined : this.#last;
  }

  /**
   * Some servers send every parallel call with index 0. Only a delta with a name can open a call:
   * others change the id from delta to delta of one call. An id written as '' beside a name is how
   * Gemini's compatible endpoint opens each of its calls.
   */
  #startsAnother(
    known: OpenCall,
    call: Record<string, unknown>,
    body: Record<string, unknown>,
    touched: ReadonlySet<OpenCall>,
  ): boolean {
    if (!isText(body.name) || known.name === '') return false;
    if (isText(call.id)) return call.id !== known.upstreamId;
    return call.id === '' || body.name !== known.name || touched.has(known);
  }

  #open(call: Record<string, unknown>, body: Record<string, unknown>): OpenCall {
    const wished = call.index;
    const isFree =
      typeof wished === 'number' &&
      Number.isInteger(wished) &&
      wished >= 0 &&
      wished <= callIndexMax &&
      !this.#takenIndexes.has(wished);
    const open: OpenCall = {
      upstreamId: isText(call.id) ? call.id : '',
      index: isFree ? wished : this.#nextIndex,
      name: isText(body.name) ? body.name : '',
    };
    this.#remember(open.upstreamId + open.name);
    this.#takenIndexes.add(open.index);
    this.#nextIndex = Math.max(this.#nextIndex, open.index + 1);
    if (typeof wished === 'number') this.#byUpstreamIndex.set(wished, open);
    if (open.upstreamId !== '') this.#byId.set(open.upstreamId, open);
    return open;
  }

  #remember(words: string): void {
    this.#namesLength += words.length;
    const isTooMuch = this.#namesLength > callNamesLengthMax;
    if (isTooMuch || this.#takenIndexes.size >= callsPerAnswerMax) {
      throw new EventTooLarge('more tool calls than anybody could run');
    }
  }

  /** Clients append what later deltas bring, so an id or a name said twice would be doubled. */
  #repairLater(
    call: Record<string, unknown>,
    body: Record<string, unknown>,
    open: OpenCall,
  ): boolean {
    let changed = false;
    if (call.id !== undefined) {
      call.id = undefined;
      changed = true;
    }
    if (body.name === undefined) return changed;
    if (isText(body.name) && open.name === '') {
      this.#remember(body.name);
      open.name = body.name;
      return changed;
    }
    body.name = undefined;
    return true;
  }
}
