/** Speech that is given again when a request is repeated: its bytes, kept as text. */
import type { OpenBytes } from '../../upstream/bytes-answer.ts';
import type { Tape } from '../../upstream/tape.ts';

/** The same audio; the tape records it as it comes. */
export function taped(audio: OpenBytes, tape: Tape): OpenBytes {
  const heard = (piece: Uint8Array) => tape.add(`${Buffer.from(piece).toString('base64')}\n`);
  heard(audio.first);
  return {
    ...audio,
    async next() {
      const piece = await audio.next();
      if (piece) heard(piece);
      return piece;
    },
  };
}

export function audioIn(text: string): Uint8Array<ArrayBuffer> {
  return Buffer.concat(text.split('\n').map((piece) => Buffer.from(piece, 'base64')));
}
