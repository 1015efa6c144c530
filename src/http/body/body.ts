import {
  bodyBytesPerSecondMin,
  bodyStallMs,
  jsonDepthMax,
  jsonNamesMax,
  jsonValuesMax,
} from '../../core/bounds.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { excessIn, isDeeperThan, scanAboveLength } from '../../core/json-depth.ts';
import { Waiting, Watch } from '../../core/watch.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

interface JsonBody {
  readonly value: Record<string, unknown>;
  /** The text as it came, so that a pass-through need not write it again. */
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** A request, and the model that its body names, which is logged even if the rest is refused. */
export interface Posted {
  readonly request: Request;
  modelNamed: string;
  /** Claims room for this many more bytes of a long body, until the request has ended. 503 */
  claimRoom?(bytes: number): void;
}

/** Reads a JSON object of bounded size and depth, or refuses with the reason. */
export async function readJson(posted: Posted, bytesMax: number): Promise<JsonBody> {
  const { request } = posted;
  refuseOtherTypes(request);
  refuseEncodings(request);
  const bytes = await readBytes(posted, bytesMax);
  const text = decode(bytes);
  const isLong = text.length > scanAboveLength;
  if (isLong) refuseExcess(text);
  const value = parse(text);
  if (!isObject(value)) throw invalidRequest('The request body must be a JSON object.');
  // A short text has no room for so many brackets, and those of a long one were counted.
  const mayBeDeep = !isLong && text.length > jsonDepthMax;
  if (mayBeDeep && isDeeperThan(jsonDepthMax, value)) throw tooDeep();
  const { model, models } = value;
  const named: unknown = model ?? (Array.isArray(models) ? models[0] : undefined);
  if (typeof named === 'string') posted.modelNamed = named;
  return { value, text, bytes };
}

function refuseExcess(text: string): void {
  const most = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonValuesMax };
  const excess = excessIn(text, most);
  if (excess === 'levels') throw tooDeep();
  if (excess === 'names') {
    throw invalidRequest(`The request body has more than ${jsonNamesMax} fields.`);
  }
  if (excess === 'values') {
    throw invalidRequest(`The request body has more than ${jsonValuesMax} values.`);
  }
}

/** The largest honest body is a full allow-list: 200 patterns of 200 characters, escaped. */
const managementBytesMax = 256 * 1024;

/** The body of a management call; one that was left out is an empty object. */
export async function readManagementBody({ request }: Pick<Posted, 'request'>): Promise<unknown> {
  if (request.body === null) return {};
  return (await readJson({ request, modelNamed: '' }, managementBytesMax)).value;
}

/**
 * Reads at most `bytesMax` bytes; a declared length above that is refused before anything is read.
 * `stallMs` is how long the client may be silent; its bytes must keep up the slowest pace, too.
 */
export async function readBytes(
  posted: Omit<Posted, 'modelNamed'>,
  bytesMax: number,
  stallMs = bodyStallMs,
): Promise<Uint8Array> {
  const { request } = posted;
  const declared = declaredLength(request);
  if (declared !== null && declared > bytesMax) throw tooLarge(bytesMax);
  const isShort = declared !== null && declared <= shortBytesMax;
  const arrival = new Arrival(stallMs, isShort ? declared : 0);
  const read = isShort ? request.bytes() : readChunks(posted, bytesMax, arrival);
  read.then(arrival.resolve, arrival.reject);
  try {
    return await arrival.bytes;
  } catch (thrown) {
    // Reading can only fail because the client is gone.
    if (thrown instanceof GatewayError) throw thrown;
    throw invalidRequest('The request body broke off before its end.');
  } finally {
    watch.remove(arrival);
  }
}

/**
 * A body of up to this length is read by the runtime, which is faster; all of it is due in 94 s.
 */
const shortBytesMax = 1024 * 1024;

/**
 * A length that is sent twice arrives as `5, 5` and declares nothing: then the bytes are counted.
 */
export function declaredLength(request: Request): number | null {
  const length = request.headers.get('content-length');
  return length !== null && wholeNumber.test(length) ? Number(length) : null;
}

const wholeNumber = /^\d+$/;

const watch = new Watch();

/** A body on its way, or the end of our patience with it. */
class Arrival extends Waiting {
  readonly bytes: Promise<Uint8Array>;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (reason: unknown) => void;
  readonly #startedAt = performance.now();
  readonly #stallMs: number;
  isGivenUp = false;

  /** `bytes` is the length of a body that is waited for as a whole. */
  constructor(stallMs: number, bytes: number) {
    super();
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    this.bytes = promise;
    this.resolve = resolve;
    this.reject = reject;
    this.#stallMs = stallMs;
    this.at = this.#dueAt(bytes);
    watch.add(this);
  }

  /** Called with the number of bytes that have come so far. */
  heard(bytes: number): void {
    this.at = Math.min(performance.now() + this.#stallMs, this.#dueAt(bytes));
  }

  fire(): void {
    this.isGivenUp = true;
    const seconds = Math.round((performance.now() - this.#startedAt) / 1000);
    this.reject(invalidRequest(`The request body did not arrive within ${seconds} seconds.`));
  }

  #dueAt(bytes: number): number {
    return this.#startedAt + dueMs(bytes, this.#stallMs);
  }
}

/** How long this many bytes may take to come: at the slowest pace, with one long silence. */
export function dueMs(bytes: number, stallMs: number): number {
  return stallMs + (bytes / bodyBytesPerSecondMin) * 1000;
}

async function readChunks(
  posted: Omit<Posted, 'modelNamed'>,
  bytesMax: number,
  arrival: Arrival,
): Promise<Uint8Array> {
  const { request } = posted;
  if (request.body === null) return new Uint8Array();
  let counted = declaredLength(request) ?? 0;
  if (counted > 0) posted.claimRoom?.(counted);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > bytesMax) throw tooLarge(bytesMax);
    // Not for a body that nobody waits for any more: its room would never be given back.
    if (size > Math.max(counted, shortBytesMax) && !arrival.isGivenUp) {
      posted.claimRoom?.(size - counted);
      counted = size;
    }
    chunks.push(chunk);
    arrival.heard(size);
  }
  return Buffer.concat(chunks, size);
}

function decode(bytes: Uint8Array): string {
  if (bytes.length === 0) throw invalidRequest('The request body is empty; send a JSON object.');
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalidRequest('The request body is not valid UTF-8.');
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^JSON Parse error: /, '') : '';
    const fault = 'The request body is not valid JSON';
    throw new GatewayError('invalid_request_error', `${fault}: ${why}.`, { unquoted: `${fault}.` });
  }
}

function refuseOtherTypes(request: Request): void {
  const type = request.headers.get('content-type')?.toLowerCase() ?? '';
  // Many small tools send JSON without saying so; only a contradicting type is refused.
  if (type === '' || type.startsWith('application/json')) return;
  if (type.startsWith('application/') && type.includes('+json')) return;
  const message = `Content-Type must be application/json, not ${type.split(';')[0]}.`;
  throw invalidRequest(message, undefined, 415);
}

/** Unpacking what strangers packed is how memory fills up; no client packs its requests. */
export function refuseEncodings(request: Request): void {
  const encoding = request.headers.get('content-encoding') ?? 'identity';
  if (encoding.toLowerCase() === 'identity') return;
  const message = `Content-Encoding ${encoding} is not supported; send the body as it is.`;
  throw invalidRequest(message, undefined, 415);
}

export function tooLarge(bytesMax: number): GatewayError {
  const message = `The request body is larger than the ${bytesMax} bytes allowed here.`;
  return invalidRequest(message, undefined, 413);
}

function tooDeep(): GatewayError {
  return invalidRequest(`The request body nests deeper than ${jsonDepthMax} levels.`);
}
