/** Functions that change the delivery of any behavior, but not the answer. */

import { chatAnswer, words } from './answers.ts';
import type { Behavior, Delivery, Encoding, Stop } from './behavior.ts';

function withDelivery(of: Behavior, delivery: Delivery): Behavior {
  return { answer: of.answer, delivery: { ...of.delivery, ...delivery } };
}

/**
 * Stops after this many events. 0 sends only the headers, and 1 sends also the opening event, which
 * has no text. A non-streaming answer stops after half of its body.
 */
function stopAfter(how: Stop, afterEvents: number, of: Behavior | undefined): Behavior {
  return withDelivery(of ?? chatAnswer(words(afterEvents + 20)), { stop: { afterEvents, how } });
}

export function hangBeforeHeaders(of: Behavior = chatAnswer('never')): Behavior {
  return withDelivery(of, { stop: { afterEvents: 'before-headers', how: 'hang' } });
}

export function resetBeforeHeaders(of: Behavior = chatAnswer('never')): Behavior {
  return withDelivery(of, { stop: { afterEvents: 'before-headers', how: 'reset' } });
}

export function hangMidStream(afterEvents: number, of?: Behavior): Behavior {
  return stopAfter('hang', afterEvents, of);
}

export function resetMidStream(afterEvents: number, of?: Behavior): Behavior {
  return stopAfter('reset', afterEvents, of);
}

/** Ends a stream without a finish reason or [DONE]. By default the HTTP response is complete. */
export function cutMidStream(
  afterEvents: number,
  how: 'end-of-body' | 'connection' | 'mid-chunk' = 'end-of-body',
  of?: Behavior,
): Behavior {
  return stopAfter(how, afterEvents, of);
}

/** Waits after this many events until the test calls `open(name)`. */
export function gated(name: string, afterEvents: number, of?: Behavior): Behavior {
  return withDelivery(of ?? chatAnswer(words(afterEvents + 5)), { gate: { name, afterEvents } });
}

export function delayed(delayMs: number, of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { delayMs });
}

/** Truncates the body. The HTTP response is valid, but its JSON or stream is incomplete. */
export function truncatedJson(atByte: number, of: Behavior = chatAnswer('cut short')): Behavior {
  return withDelivery(of, { truncateAtByte: atByte });
}

export function splitCharacters(of: Behavior = chatAnswer('naïve 日本 😀 café')): Behavior {
  return withDelivery(of, { splitCharacters: true });
}

export function slowDrip(
  bytes: number,
  everyMs: number,
  of: Behavior = chatAnswer('ok'),
): Behavior {
  return withDelivery(of, { pieceBytes: bytes, pieceDelayMs: everyMs });
}

/** Compresses the body, in several layers if requested, although no client accepts it. */
export function encoded(encodings: readonly Encoding[], of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { encodings });
}

/** Declares this many bytes too many (and then closes the connection) or, if negative, too few. */
export function wrongContentLength(off: number, of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { contentLengthOff: off });
}

export function untilClose(of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { untilClose: true });
}

/** Answers before the body, which has the model, is read. Needs a script for a path or '*'. */
export function answerEarly(of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { early: true });
}

export function interimReplies(count: number, of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { interim: count });
}

/** Sends this many bytes of additional headers. */
export function endlessHeaders(bytes: number, of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, { headerFillBytes: bytes });
}

/** Sends these additional headers. */
export function withHeaders(
  headers: Readonly<Record<string, string>>,
  of: Behavior = chatAnswer('ok'),
): Behavior {
  return withDelivery(of, { extraHeaders: Object.entries(headers) });
}

/** Sends headers that a gateway must not forward. The last one ends in Latin-1 bytes. */
export function setCookieAndOddHeaders(of: Behavior = chatAnswer('ok')): Behavior {
  return withDelivery(of, {
    extraHeaders: [
      ['set-cookie', 'session=upstream-secret; Path=/; HttpOnly'],
      ['set-cookie', 'second=upstream-secret'],
      ['connection', 'keep-alive, x-hop'],
      ['x-hop', 'only-for-the-next-hop'],
      ['keep-alive', 'timeout=7'],
      ['server', 'fake-upstream/9.9'],
      ['strict-transport-security', 'max-age=1'],
      ['access-control-allow-origin', 'https://upstream.example'],
      ['openai-organization', 'org-upstream-secret'],
      ['x-ratelimit-remaining-requests', '41'],
      ['x-odd-bytes', 'a%0d%0aset-cookie: b=c \u008d\u008a\u00ff'],
    ],
  });
}
