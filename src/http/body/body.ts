import type { ReadableStreamDefaultReader } from 'node:stream/web';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import {
  bodyBytesPerSecondMin,
  bodyStallMs,
  jsonDepthMax,
  jsonEscapesMax,
  jsonNamesMax,
  jsonStringsMax,
  jsonValuesMax,
  rejectedBodyBytesMax,
  rejectedBodyMsMax,
} from '../../core/bounds.ts';
import { Deadline, DeadlineWatcher } from '../../core/deadlines.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import {
  exceededLimit,
  isDeeperThan,
  isObject,
  JsonTotals,
  scanAboveLength,
} from '../../core/json.ts';
import { turns } from '../../core/turns.ts';
import type { Exchange } from '../routes.ts';
import { requestBody, withholdsBody } from './expect-continue.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

interface JsonBody {
  readonly value: Record<string, unknown>;
  /** The original text, so that a pass-through doesn't need to serialize it again. */
  readonly text: string;
  readonly bytes: Uint8Array;
  /** The number of names in all objects, if the text was long enough to scan it. */
  readonly names?: number;
}

/** `requestedModel` is the model in the body; it is logged even if the rest is invalid. */
export interface IncomingRequest {
  readonly request: Request;
  requestedModel: string;
  /** Reserves memory for more bytes of a long body until the request ends. Throws 503. */
  reserveMemory?(bytes: number): void;
}

/** Longer bodies are parsed in turns with other requests. */
const turnBytesMin = 16 * 1024;
/**
 * Bodies take less time than as many bytes of streams. Counting all their bytes would give each
 * body of 100 KB a turn and a write to the journal of its own. The slowest 512 KiB take 60 ms.
 */
const bytesPerTurnByte = 8;

/** Reads a JSON object of bounded size and depth. Throws 400, 413, 415. */
export async function readJson(incoming: IncomingRequest, bytesMax: number): Promise<JsonBody> {
  const { request } = incoming;
  rejectContentType(request);
  const encoding = contentEncodingOf(request);
  const received = await readBytes(incoming, bytesMax);
  const bytes = encoding ? await decompress(received, encoding, incoming, bytesMax) : received;
  // Decoding and parsing 20 MB take about 50 ms each, and many bodies may arrive at the same time.
  if (bytes.length > turnBytesMin) await turns.pass(bytes.length / bytesPerTurnByte);
  const text = decode(bytes);
  const isLong = text.length > scanAboveLength;
  const names = isLong ? countNames(text) : undefined;
  if (isLong) await turns.pass(text.length);
  const value = parse(text);
  if (isLong) await turns.pass(text.length);
  if (!isObject(value)) throw invalidRequest('The request body must be a JSON object.');
  // A text that is shorter than the limit can't nest too deeply, and a long one was scanned above.
  const mayBeDeep = !isLong && text.length > jsonDepthMax;
  if (mayBeDeep && isDeeperThan(jsonDepthMax, value)) throw tooDeep();
  const { model, models } = value;
  const firstModel: unknown = model ?? (Array.isArray(models) ? models[0] : undefined);
  if (typeof firstModel === 'string') incoming.requestedModel = firstModel;
  return { value, text, bytes, ...(names === undefined ? {} : { names }) };
}

const tooMany = {
  names: `${jsonNamesMax} fields`,
  values: `${jsonValuesMax} values`,
  strings: `${jsonStringsMax} different short strings`,
  escapes: `${jsonEscapesMax} escaped characters`,
};

/** Returns the number of names in a JSON text. Throws 400 if it exceeds a limit. */
function countNames(text: string): number {
  const limits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonValuesMax };
  const totals = new JsonTotals();
  const excess = exceededLimit(text, limits, totals);
  if (excess === 'levels') throw tooDeep();
  if (excess !== undefined) {
    throw invalidRequest(`The request body has more than ${tooMany[excess]}.`);
  }
  return totals.names;
}

/** Enough for the largest valid body: an allow-list of 200 patterns of 200 escaped characters. */
const managementBytesMax = 256 * 1024;

/** Reads the body of a management call. A missing body counts as an empty object. */
export async function readManagementBody({
  request,
}: Pick<IncomingRequest, 'request'>): Promise<unknown> {
  if (request.body === null) return {};
  return (await readJson({ request, requestedModel: '' }, managementBytesMax)).value;
}

/**
 * Reads at most `bytesMax` bytes. A larger Content-Length is rejected before anything is read.
 * The client may pause for `stallMs`, and must keep the minimum rate overall.
 */
export async function readBytes(
  incoming: Omit<IncomingRequest, 'requestedModel'>,
  bytesMax: number,
  stallMs = bodyStallMs,
): Promise<Uint8Array> {
  const { request } = incoming;
  const declared = declaredLength(request);
  if (declared !== null && declared > bytesMax) throw tooLarge(bytesMax);
  if (withholdsBody(request)) await requestBody(request);
  const isShort = declared !== null && declared <= shortBytesMax;
  const pendingBody = new PendingBody(stallMs, isShort ? declared : 0);
  const read = isShort ? request.bytes() : readChunks(incoming, bytesMax, pendingBody);
  read.then(pendingBody.resolve, pendingBody.reject);
  try {
    return await pendingBody.bytes;
  } catch (error) {
    // Reading fails only if the client disconnected.
    if (!(error instanceof GatewayError)) throw invalidRequest('The request body ended early.');
    unfinished.add(request);
    throw error;
  } finally {
    deadlines.remove(pendingBody);
  }
}

/** Bun reads bodies of up to this length in one call, which is faster. They have 94 s to arrive. */
const shortBytesMax = 1024 * 1024;

/** Returns null if the header is repeated, as in `5, 5`. The bytes are then counted instead. */
export function declaredLength(request: Request): number | null {
  const length = request.headers.get('content-length');
  return length !== null && integerPattern.test(length) ? Number(length) : null;
}

const integerPattern = /^\d+$/;

const deadlines = new DeadlineWatcher();

/** A body that is being read, with its deadline. */
class PendingBody extends Deadline {
  readonly bytes: Promise<Uint8Array>;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (reason: unknown) => void;
  readonly #startedAt = performance.now();
  readonly #stallMs: number;
  isTimedOut = false;

  /** `bytes` is the length of a body that Bun reads in one call, otherwise 0. */
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

  /** Extends the deadline. `bytes` is the number of bytes received so far. */
  received(bytes: number): void {
    this.at = Math.min(performance.now() + this.#stallMs, this.#deadlineAt(bytes));
  }

  fire(): void {
    this.isTimedOut = true;
    const seconds = Math.round((performance.now() - this.#startedAt) / 1000);
    this.reject(invalidRequest(`The request body didn't arrive within ${seconds} seconds.`));
  }

  #deadlineAt(bytes: number): number {
    return this.#startedAt + deadlineMs(bytes, this.#stallMs);
  }
}

/** Returns how long this many bytes may take at the minimum rate, plus one pause. */
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
    // Reserve nothing after a timeout, because it would never be released.
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
  if (bytes.length === 0) throw invalidRequest('The request body is empty. Send a JSON object.');
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalidRequest("The request body isn't valid UTF-8.");
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const detail = error instanceof Error ? error.message.replace(/^JSON Parse error: /, '') : '';
    const problem = "The request body isn't valid JSON";
    throw new GatewayError('invalid_request_error', `${problem}: ${detail}.`, {
      unquoted: `${problem}.`,
    });
  }
}

function rejectContentType(request: Request): void {
  const type = request.headers.get('content-type')?.toLowerCase() ?? '';
  // Many small tools send JSON without a Content-Type, so reject only a different type.
  if (type === '' || type.startsWith('application/json')) return;
  if (type.startsWith('application/') && type.includes('+json')) return;
  const message = `Content-Type must be application/json, not ${type.split(';')[0]}.`;
  throw invalidRequest(message, undefined, 415);
}

const decompressors = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  // Some clients send deflate data without the zlib header that the standard requires.
  deflate: (bytes: Uint8Array) => (hasZlibHeader(bytes) ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(),
};

type ContentEncoding = keyof typeof decompressors;

function hasZlibHeader([first = 0, second = 0]: Uint8Array): boolean {
  return (first & 15) === 8 && (first * 256 + second) % 31 === 0;
}

/** Returns undefined for an uncompressed body. A chain of encodings is rejected, like others. */
function contentEncodingOf(request: Request): ContentEncoding | undefined {
  const header = request.headers.get('content-encoding') ?? 'identity';
  const encoding = header.trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') return undefined;
  if (Object.hasOwn(decompressors, encoding)) return encoding as ContentEncoding;
  const message = `Content-Encoding ${header} isn't supported. Use gzip, deflate, br, or zstd.`;
  throw invalidRequest(message, undefined, 415);
}

/** Forms are stored as they arrive, so they can't be compressed. */
export function rejectContentEncoding(request: Request): void {
  if (contentEncodingOf(request) === undefined) return;
  throw invalidRequest("A form can't be compressed. Send it uncompressed.", undefined, 415);
}

/** Stops at `bytesMax`, because a few bytes can expand to gigabytes. Throws 400, 413, 503. */
async function decompress(
  bytes: Uint8Array,
  encoding: ContentEncoding,
  incoming: Omit<IncomingRequest, 'requestedModel'>,
  bytesMax: number,
): Promise<Uint8Array> {
  const stream = decompressors[encoding](bytes);
  const chunks: Uint8Array[] = [];
  let size = 0;
  let reservedBytes = 0;
  stream.end(bytes);
  try {
    for await (const chunk of stream) {
      size += chunk.length;
      if (size > bytesMax) throw tooLarge(bytesMax);
      if (size > Math.max(reservedBytes, shortBytesMax)) {
        incoming.reserveMemory?.(size - reservedBytes);
        reservedBytes = size;
      }
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    throw invalidRequest(`The request body isn't valid ${encoding} data.`);
  }
  return Buffer.concat(chunks, size);
}

export function tooLarge(bytesMax: number): GatewayError {
  const message = `The request body is larger than the maximum of ${bytesMax} bytes.`;
  return invalidRequest(message, undefined, 413);
}

function tooDeep(): GatewayError {
  return invalidRequest(`The request body is nested deeper than ${jsonDepthMax} levels.`);
}

// A short rejected body is read to its end. Otherwise the unread bytes would make the system reset
// the connection before the client has read the error, and a proxy would answer 502. If the body is
// longer, the connection is closed after the error, because Bun would read all of the body.

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Requests whose body can't be read to its end in time. */
const unfinished = new WeakSet<Request>();

/** Discards the rest of a partly read body. */
export async function discardRest(request: Request, reader: Reader): Promise<void> {
  if (!(await readToEnd(reader))) unfinished.add(request);
}

/** Discards the body of a rejected request. If it is too long, the connection will be closed. */
export async function discardUnread(exchange: Exchange): Promise<void> {
  const { request, headers } = exchange;
  if (withholdsBody(request)) {
    // The client may still send the body after the error.
    headers.connection = 'close';
  } else if (request.body !== null && !request.bodyUsed) {
    // Otherwise, a stalled client might not get the error.
    exchange.setIdleTimeout(0);
    await discardRest(request, request.body.getReader());
  }
  if (unfinished.has(request)) headers.connection = 'close';
}

/** Returns whether the body ended within the limits. */
async function readToEnd(reader: Reader): Promise<boolean> {
  let isCanceled = false;
  const cancel = () => {
    isCanceled = true;
    // Fails if the client disconnected.
    return reader.cancel().catch(() => undefined);
  };
  const timer = setTimeout(cancel, rejectedBodyMsMax);
  try {
    for (let bytes = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) return !isCanceled;
      bytes += value.length;
      if (bytes > rejectedBodyBytesMax) {
        await cancel();
        return false;
      }
    }
  } catch {
    // The client disconnected.
    return false;
  } finally {
    clearTimeout(timer);
  }
}
