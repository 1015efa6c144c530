import { bodyBytesPerSecondMin, bodyStallMs, jsonDepthMax } from '../core/bounds.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import { isDeeperThan, nestsDeeperThan, scanAboveLength } from '../core/json-depth.ts';
import { Waiting, Watch } from '../core/watch.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

export interface JsonBody {
  readonly value: Record<string, unknown>;
  /** As it came, so that a pass-through need not write it again. */
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** What came, and what its body calls the model: that is logged even if the rest is refused. */
interface Posted {
  readonly request: Request;
  modelNamed: string;
}

/** Reads a JSON object of bounded size and depth, or refuses with the reason. */
export async function readJson(posted: Posted, bytesMax: number): Promise<JsonBody> {
  const { request } = posted;
  refuseOtherTypes(request, 'application/json');
  refuseEncodings(request);
  const bytes = await readBytes(request, bytesMax);
  const text = decode(bytes);
  if (text.length > scanAboveLength && nestsDeeperThan(jsonDepthMax, text)) throw tooDeep();
  const value = parse(text);
  if (!isObject(value)) throw invalidRequest('The request body must be a JSON object.');
  // A short text has no room for so many brackets.
  if (text.length > jsonDepthMax && isDeeperThan(jsonDepthMax, value)) throw tooDeep();
  if (typeof value.model === 'string') posted.modelNamed = value.model;
  return { value, text, bytes };
}

/**
 * Reads at most `bytesMax` bytes; an honest Content-Length is refused before anything is read.
 * `stallMs` is the patience with a body of no length; a long one has longer, at the slowest pace.
 */
export async function readBytes(
  request: Request,
  bytesMax: number,
  stallMs = bodyStallMs,
): Promise<Uint8Array> {
  const declared = declaredLength(request);
  if (declared !== null && declared > bytesMax) throw tooLarge(bytesMax);
  const length = declared ?? bytesMax;
  const patienceMs = stallMs + (length / bodyBytesPerSecondMin) * 1000;
  const arrival = new Arrival(patienceMs);
  const read = declared === null ? readChunks(request, bytesMax) : request.bytes();
  read.then(arrival.resolve, arrival.reject);
  try {
    return await arrival.bytes;
  } catch (thrown) {
    // All that can go wrong with reading is a client that is gone.
    throw thrown instanceof GatewayError ? thrown : brokenOff();
  } finally {
    watch.remove(arrival);
  }
}

/** One that is sent twice arrives as `5, 5` and declares nothing: then the bytes are counted. */
function declaredLength(request: Request): number | null {
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
  readonly #patienceMs: number;

  constructor(patienceMs: number) {
    super();
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    this.bytes = promise;
    this.resolve = resolve;
    this.reject = reject;
    this.#patienceMs = patienceMs;
    this.at = performance.now() + patienceMs;
    watch.add(this);
  }

  fire(): void {
    this.reject(tooSlow(this.#patienceMs));
  }
}

async function readChunks({ body }: Request, bytesMax: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk);
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
    throw invalidRequest(`The request body is not valid JSON: ${why}.`);
  }
}

function refuseOtherTypes(request: Request, wanted: string): void {
  const type = request.headers.get('content-type')?.toLowerCase() ?? null;
  // Many small tools send JSON without saying so; only a contradicting type is refused.
  if (type === null || type.startsWith(wanted)) return;
  if (type.startsWith('application/') && type.includes('+json')) return;
  const message = `Content-Type must be ${wanted}, not ${type.split(';')[0]}.`;
  throw new GatewayError('invalid_request_error', message, { status: 415 });
}

/** Unpacking what strangers packed is how memory fills; no client packs its requests. */
function refuseEncodings(request: Request): void {
  const encoding = request.headers.get('content-encoding') ?? 'identity';
  if (encoding.toLowerCase() === 'identity') return;
  const message = `Content-Encoding ${encoding} is not supported; send the body as it is.`;
  throw new GatewayError('invalid_request_error', message, { status: 415 });
}

function tooLarge(bytesMax: number): GatewayError {
  const message = `The request body is larger than the ${bytesMax} bytes allowed here.`;
  return new GatewayError('invalid_request_error', message, { status: 413 });
}

function tooSlow(patienceMs: number): GatewayError {
  const seconds = Math.round(patienceMs / 1000);
  return invalidRequest(`The request body did not arrive within ${seconds} seconds.`);
}

function brokenOff(): GatewayError {
  return invalidRequest('The request body broke off before its end.');
}

function tooDeep(): GatewayError {
  return invalidRequest(`The request body nests deeper than ${jsonDepthMax} levels.`);
}
