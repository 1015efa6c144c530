/** Writes frames of Amazon's event stream without the gateway's code. */

import { crc32 } from 'node:zlib';

function headerOf(name: string, value: string): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(Buffer.byteLength(value));
  const textType = 7;
  return Buffer.concat([
    Buffer.from([Buffer.byteLength(name)]),
    Buffer.from(name),
    Buffer.from([textType]),
    length,
    Buffer.from(value),
  ]);
}

/** Returns a frame with the headers in the given order. */
export function frameOf(
  headers: Readonly<Record<string, string>>,
  payload: string | Uint8Array,
): Buffer {
  const head = Buffer.concat(Object.entries(headers).map((entry) => headerOf(...entry)));
  const body = Buffer.from(payload);
  const frame = Buffer.alloc(12 + head.length + body.length + 4);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(head.length, 4);
  frame.writeUInt32BE(crc32(frame.subarray(0, 8)), 8);
  head.copy(frame, 12);
  body.copy(frame, 12 + head.length);
  frame.writeUInt32BE(crc32(frame.subarray(0, -4)), frame.length - 4);
  return frame;
}

export function eventFrame(name: string, payload: object | string): Buffer {
  const headers = {
    ':event-type': name,
    ':content-type': 'application/json',
    ':message-type': 'event',
  };
  return frameOf(headers, typeof payload === 'string' ? payload : JSON.stringify(payload));
}

export function exceptionFrame(name: string, message: string): Buffer {
  const headers = {
    ':exception-type': name,
    ':content-type': 'application/json',
    ':message-type': 'exception',
  };
  return frameOf(headers, JSON.stringify({ message }));
}
