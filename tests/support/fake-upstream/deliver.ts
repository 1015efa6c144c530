/** Turns the parts of a reply into steps on a socket: HTTP framing, with faults if scripted. */

import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { Delivery, Encoding, Stop } from './behavior.ts';
import { joinParts, type Reply } from './reply.ts';
import type { Part } from './sse.ts';

export type Step =
  | { readonly do: 'write'; readonly bytes: Uint8Array; readonly part?: Part }
  /** 0 waits one turn of the event loop, so that the reader receives two separate writes. */
  | { readonly do: 'wait'; readonly delayMs: number }
  | { readonly do: 'gate'; readonly name: string }
  | { readonly do: 'hang' }
  | { readonly do: 'reset' }
  | { readonly do: 'close'; readonly outcome: 'complete' | 'cut' }
  | { readonly do: 'finish'; readonly outcome: 'complete' | 'cut' };

type Framing = 'length' | 'chunked' | 'until-close';

/**
 * After a reset, many clients drop the data that they haven't read. These pauses let them read
 * first, so that "after n events" is exact. There are several pauses because a busy machine that
 * stops all processes uses up only one of them.
 */
const settleBeforeReset = { pauses: 10, pauseMs: 2 };

export function* deliver(plain: Reply, delivery: Delivery, id: number): Generator<Step> {
  const { stop, gate } = delivery;
  if ((delivery.delayMs ?? 0) > 0) yield { do: 'wait', delayMs: delivery.delayMs ?? 0 };
  if (delivery.interim !== undefined) {
    const early = 'HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n';
    yield { do: 'write', bytes: Buffer.from(early.repeat(delivery.interim)) };
  }
  if (stop?.afterEvents === 'before-headers') {
    yield* stopNow(stop.how);
    return;
  }
  const reply = reshaped(plain, delivery);
  const framing = framingOf(reply, delivery);
  let unsent: Uint8Array = headOf(reply, framing, delivery, id);
  if (delivery.headerFillBytes !== undefined) {
    yield* headerFill(unsent, delivery.headerFillBytes);
    unsent = nothing;
  }
  // Like real servers, sends the head together with a full body unless something must wait.
  if (reply.streamed || stop !== undefined || gate !== undefined) {
    yield { do: 'write', bytes: unsent };
    unsent = nothing;
  }
  const last = reply.streamed ? Number.POSITIVE_INFINITY : 1;
  const stopAt = Math.min(stop?.afterEvents ?? Number.POSITIVE_INFINITY, last);
  const gateAt = Math.min(gate?.afterEvents ?? Number.POSITIVE_INFINITY, last);
  let isClosed = gate !== undefined;
  let sent = 0;
  for (const part of reply.parts) {
    if (gate !== undefined && isClosed && sent >= gateAt) {
      yield { do: 'gate', name: gate.name };
      isClosed = false;
    }
    if (stop !== undefined && sent >= stopAt) break;
    if (sent > 0 && reply.partDelayMs > 0) yield { do: 'wait', delayMs: reply.partDelayMs };
    yield* chunks(part, unsent, framing, delivery);
    unsent = nothing;
    sent += Math.max(1, part.events);
  }
  if (gate !== undefined && isClosed) yield { do: 'gate', name: gate.name };
  if (stop === undefined) yield* endOf(framing, delivery, unsent);
  else yield* stopNow(stop.how, framing);
}

function* stopNow(how: Stop, framing: Framing = 'length'): Generator<Step> {
  if (how === 'hang') yield { do: 'hang' };
  if (how === 'reset') {
    const { pauses, pauseMs } = settleBeforeReset;
    for (let left = pauses; left > 0; left -= 1) yield { do: 'wait', delayMs: pauseMs };
    yield { do: 'reset' };
  }
  if (how === 'mid-chunk') {
    const half = framing === 'chunked' ? '400\r\ndata: {"choi' : ' ';
    yield { do: 'write', bytes: Buffer.from(half) };
  }
  if (how === 'end-of-body' && framing !== 'until-close') {
    if (framing === 'chunked') yield { do: 'write', bytes: lastChunk };
    yield { do: 'finish', outcome: 'cut' };
  }
  yield { do: 'close', outcome: 'cut' };
}

function* endOf(framing: Framing, delivery: Delivery, unsent: Uint8Array): Generator<Step> {
  if (unsent.length > 0) yield { do: 'write', bytes: unsent };
  const outcome = delivery.truncateAtByte === undefined ? 'complete' : 'cut';
  if (framing === 'chunked') yield { do: 'write', bytes: lastChunk };
  if ((delivery.contentLengthOff ?? 0) > 0) yield { do: 'close', outcome: 'cut' };
  if (framing === 'until-close') yield { do: 'close', outcome };
  yield { do: 'finish', outcome };
}

const nothing = new Uint8Array();
const lastChunk = Buffer.from('0\r\n\r\n');

function framed(bytes: Uint8Array, framing: Framing): Uint8Array {
  if (framing !== 'chunked' || bytes.length === 0) return bytes;
  const size = `${bytes.length.toString(16)}\r\n`;
  const chunk = Buffer.allocUnsafe(size.length + bytes.length + 2);
  chunk.write(size, 'latin1');
  chunk.set(bytes, size.length);
  chunk.write('\r\n', size.length + bytes.length, 'latin1');
  return chunk;
}

/** Splits a part into pieces. The last piece has the data to log, because it completes the part. */
function* chunks(
  part: Part,
  before: Uint8Array,
  framing: Framing,
  delivery: Delivery,
): Generator<Step> {
  let lead = before;
  let from = 0;
  for (const to of cutPoints(part.bytes, delivery)) {
    const bytes = framed(part.bytes.subarray(from, to), framing);
    yield { do: 'write', bytes: lead.length === 0 ? bytes : Buffer.concat([lead, bytes]) };
    yield { do: 'wait', delayMs: delivery.pieceDelayMs ?? 0 };
    lead = nothing;
    from = to;
  }
  const last = framed(from === 0 ? part.bytes : part.bytes.subarray(from), framing);
  yield { do: 'write', bytes: lead.length === 0 ? last : Buffer.concat([lead, last]), part };
  if (delivery.pieceBytes !== undefined) {
    yield { do: 'wait', delayMs: delivery.pieceDelayMs ?? 0 };
  }
}

function* cutPoints(bytes: Uint8Array, delivery: Delivery): Generator<number> {
  if (delivery.pieceBytes !== undefined) {
    for (let index = delivery.pieceBytes; index < bytes.length; index += delivery.pieceBytes)
      yield index;
  } else if (delivery.splitCharacters === true) {
    // Splits after the first byte of every multi-byte character.
    for (let index = 1; index < bytes.length; index += 1)
      if ((bytes[index - 1] ?? 0) >= 0xc0) yield index;
  }
}

/** Changes the full body: encodes it, truncates it at a byte, or cuts it in half for a stop. */
function reshaped(plain: Reply, delivery: Delivery): Reply {
  const { encodings = [], truncateAtByte, contentLengthOff, stop, gate } = delivery;
  let reply = plain;
  if (encodings.length > 0) {
    const full = joinParts([...reply.parts]);
    const bytes = encodings.reduce<Uint8Array>((body, name) => encoders[name](body), full.bytes);
    const headers = { ...reply.headers, 'content-encoding': encodings.join(', ') };
    reply = { ...reply, headers, parts: [{ ...full, bytes }] };
  }
  if (truncateAtByte !== undefined) {
    reply = { ...reply, parts: [truncated([...reply.parts], truncateAtByte)] };
  }
  // The length must be known before the first part is sent.
  if (contentLengthOff !== undefined) reply = { ...reply, parts: [...reply.parts] };
  const halts = stop !== undefined || gate !== undefined;
  return halts && !reply.streamed ? { ...reply, parts: halves(reply, stop) } : reply;
}

function halves(reply: Reply, stop: Delivery['stop']): readonly Part[] {
  const full = joinParts([...reply.parts]);
  const half = stop?.afterEvents === 0 ? 0 : Math.floor(full.bytes.length / 2);
  const first = { bytes: full.bytes.subarray(0, half), events: 0 };
  const second = { ...full, bytes: full.bytes.subarray(half) };
  if (stop?.how === 'end-of-body') return [first];
  return half === 0 ? [second] : [first, second];
}

/** Truncates a body. Only complete parts are logged as sent. */
function truncated(parts: readonly Part[], atByte: number): Part {
  const complete: Part[] = [];
  let length = 0;
  for (const part of parts) {
    length += part.bytes.length;
    if (length <= atByte) complete.push(part);
  }
  const bytes = joinParts(parts).bytes.subarray(0, atByte);
  return { ...joinParts(complete), bytes };
}

const encoders: Readonly<Record<Encoding, (bytes: Uint8Array) => Uint8Array>> = {
  gzip: (bytes) => gzipSync(bytes),
  br: (bytes) => brotliCompressSync(bytes),
  deflate: (bytes) => deflateSync(bytes),
};

function framingOf(reply: Reply, delivery: Delivery): Framing {
  if (delivery.untilClose === true) return 'until-close';
  if (delivery.contentLengthOff !== undefined) return 'length';
  return reply.streamed ? 'chunked' : 'length';
}

function headOf(reply: Reply, framing: Framing, delivery: Delivery, id: number): Buffer {
  const headers: (readonly [string, string])[] = Object.entries(reply.headers);
  headers.push(['x-request-id', `req_fake_${id}`]);
  if (framing === 'chunked') headers.push(['transfer-encoding', 'chunked']);
  if (framing === 'until-close') headers.push(['connection', 'close']);
  if (framing === 'length') {
    let length = delivery.contentLengthOff ?? 0;
    for (const part of reply.parts) length += part.bytes.length;
    headers.push(['content-length', String(length)]);
  }
  headers.push(...(delivery.extraHeaders ?? []));
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.from(`HTTP/1.1 ${reply.status} Fake\r\n${lines}\r\n`, 'latin1');
}

function* headerFill(head: Uint8Array, bytes: number): Generator<Step> {
  const line = Buffer.from(`x-fill: ${'f'.repeat(1014)}\r\n`);
  // The empty line at the end of the head must follow the additional headers.
  yield { do: 'write', bytes: head.subarray(0, -2) };
  for (let sent = 0; sent < bytes; sent += line.length) yield { do: 'write', bytes: line };
  yield { do: 'write', bytes: Buffer.from('\r\n') };
}
