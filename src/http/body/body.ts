import type { ReadableStreamDefaultReader } from 'node:stream/web';
import {
  bodyBytesPerSecondMin,
  bodyStallMs,
  jsonDepthMax,
  jsonNamesMax,
  jsonValuesMax,
  refusedBodyMsMax,
} from '../../core/bounds.ts';
import { Deadline, DeadlineWatcher } from '../../core/deadlines.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import { exceededLimit, isDeeperThan, isObject, scanAboveLength } from '../../core/json.ts';
import type { Exchange } from '../routes.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

interface JsonBody {
  readonly value: Record<string, unknown>;
  /** The text as it came, so that a pass-through need not write it again. */
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** A request, and the model that its body names, which is logged even if the rest is refused. */
export interface IncomingRequest {
  readonly request: Request;
  requestedModel: string;
  /** Claims room for this many more bytes of a long body, until the request has ended. 503 */
  reserveMemory?(bytes: number): void;
}

/** Reads a JSON object of bounded size and depth, or refuses with the reason. */
export async function readJson(incoming: IncomingRequest, bytesMax: number): Promise<JsonBody> {
  const { request } = incoming;
  rejectContentType(request);
  rejectContentEncoding(request);
  const bytes = await readBytes(incoming, bytesMax);
  const text = decode(bytes);
  const isLong = text.length > scanAboveLength;
  if (isLong) rejectExcess(text);
  const value = parse(text);
  if (!isObject(value)) throw invalidRequest('The request body must be a JSON object.');
  // A short text has no room for so many brackets, and those of a long one were counted.
  const mayBeDeep = !isLong && text.length > jsonDepthMax;
  if (mayBeDeep && isDeeperThan(jsonDepthMax, value)) throw tooDeep();
  const { model, models } = value;
  const firstModel: unknown = model ?? (Array.isArray(models) ? models[0] : undefined);
  if (typeof firstModel === 'string') incoming.requestedModel = firstModel;
  return { value, text, bytes };
}

function rejectExcess(text: string): void {
  const limits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonValuesMax };
  const excess = exceededLimit(text, limits);
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
export async function readManagementBody({
  request,
}: Pick<IncomingRequest, 'request'>): Promise<unknown> {
  if (request.body === null) return {};
  return (await readJson({ request, requestedModel: '' }, managementBytesMax)).value;
}

/**
 * Reads at most `bytesMax` bytes; a declared length above that is refused before anything is read.
 * `stallMs` is how long the client may be silent; its bytes must keep up the slowest pace, too.
 */
export async function readBytes(
  incoming: Omit<IncomingRequest, 'requestedModel'>,
  bytesMax: number,
  stallMs = bodyStallMs,
): Promise<Uint8Array> {
  const { request } = incoming;
  const declared = declaredLength(request);
  if (declared !== null && declared > bytesMax) throw tooLarge(bytesMax);
  const isShort = declared !== null && declared <= shortBytesMax;
  const pendingBody = new PendingBody(stallMs, isShort ? declared : 0);
  const read = isShort ? request.bytes() : readChunks(incoming, bytesMax, pendingBody);
  read.then(pendingBody.resolve, pendingBody.reject);
  try {
    return await pendingBody.bytes;
  } catch (error) {
    // Reading can only fail because the client is gone.
    if (error instanceof GatewayError) throw error;
    throw invalidRequest('The request body broke off before its end.');
  } finally {
    deadlines.remove(pendingBody);
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
  return length !== null && integerPattern.test(length) ? Number(length) : null;
}

const integerPattern = /^\d+$/;

const deadlines = new DeadlineWatcher();

/** A body on its way, or the end of our patience with it. */
class PendingBody extends Deadline {
  readonly bytes: Promise<Uint8Array>;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (reason: unknown) => void;
  readonly #startedAt = performance.now();
  readonly #stallMs: number;
  isTimedOut = false;

  /** `bytes` is the length of a body that is waited for as a whole. */
  constructor(stallMs: number, bytes: number) {
    super();
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    this.bytes = promise;
    this.resolve = resolve;
    this.reject = reject;
    this.#stallMs = stallMs;
    this.at = this.#deadlineAt(bytes);
    deadlines.add(this);
  }

  /** Called with the number of bytes that have come so far. */
  received(bytes: number): void {
    this.at = Math.min(performance.now() + this.#stallMs, this.#deadlineAt(bytes));
  }

  fire(): void {
    this.isTimedOut = true;
    const seconds = Math.round((performance.now() - this.#startedAt) / 1000);
    this.reject(invalidRequest(`The request body did not arrive within ${seconds} seconds.`));
  }

  #deadlineAt(bytes: number): number {
    return this.#startedAt + deadlineMs(bytes, this.#stallMs);
  }
}

/** How long this many bytes may take to come: at the slowest pace, with one long silence. */
export function deadlineMs(bytes: number, stallMs: number): number {
  return stallMs + (bytes / bodyBytesPerSecondMin) * 1000;
}

async function readChunks(
  incoming: Omit<IncomingRequest, 'requestedModel'>,
  bytesMax: number,
  pendingBody: PendingBody,
): Promise<Uint8Array> {
  const { request } = incoming;
  if (request.body === null) return new Uint8Array();
  let reservedBytes = declaredLength(request) ?? 0;
  if (reservedBytes > 0) incoming.reserveMemory?.(reservedBytes);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > bytesMax) throw tooLarge(bytesMax);
    // Not for a body that nobody waits for any more: its room would never be given back.
    if (size > Math.max(reservedBytes, shortBytesMax) && !pendingBody.isTimedOut) {
      incoming.reserveMemory?.(size - reservedBytes);
      reservedBytes = size;
    }
    chunks.push(chunk);
    pendingBody.received(size);
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
    const detail = error instanceof Error ? error.message.replace(/^JSON Parse error: /, '') : '';
    const problem = 'The request body is not valid JSON';
    throw new GatewayError('invalid_request_error', `${problem}: ${detail}.`, {
      unquoted: `${problem}.`,
    });
  }
}

function rejectContentType(request: Request): void {
  const type = request.headers.get('content-type')?.toLowerCase() ?? '';
  // Many small tools send JSON without saying so; only a contradicting type is refused.
  if (type === '' || type.startsWith('application/json')) return;
  if (type.startsWith('application/') && type.includes('+json')) return;
  const message = `Content-Type must be application/json, not ${type.split(';')[0]}.`;
  throw invalidRequest(message, undefined, 415);
}

/** Unpacking what strangers packed is how memory fills up; no client packs its requests. */
export function rejectContentEncoding(request: Request): void {
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

/**
 * Refused bodies are read to their end. A client that is still sending on a connection that closes
 * would not hear the refusal: unread bytes make the system reset the connection, and a proxy says
 * 502 in our place. Where a connection stays open, the runtime reads the rest by itself.
 */

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Discards the rest of a body that was begun. */
export function discardRest(request: Request, reader: Reader): Promise<void> {
  return closesConnection(request) ? readToEnd(reader) : cancel(reader);
}

/** Discards a body that nobody has begun to read. */
export async function discardUnread({ request, headers }: Exchange): Promise<void> {
  if (!closesConnection(request) && headers.connection !== 'close') return;
  if (request.body === null || request.bodyUsed) return;
  await readToEnd(request.body.getReader());
}

/** Whether the connection ends here: proxies that open one for each request say so. */
const closesConnection = ({ headers }: Request) =>
  /\bclose\b/i.test(headers.get('connection') ?? '');

async function readToEnd(reader: Reader): Promise<void> {
  const timer = setTimeout(() => cancel(reader), refusedBodyMsMax);
  try {
    while (!(await reader.read()).done);
  } catch {
    // The client is gone.
  } finally {
    clearTimeout(timer);
  }
}

/** Fails when the client is gone, which nobody needs to hear of. */
async function cancel(reader: Reader): Promise<void> {
  await reader.cancel().catch(() => undefined);
}
