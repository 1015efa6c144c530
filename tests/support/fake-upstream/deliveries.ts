/**
 * Builders of how an answer is delivered. Each takes any behavior and changes only its delivery.
 */

import { chatAnswer, words } from './answers.ts';
import type { Behavior, Delivery, Encoding, Stop } from './behavior.ts';

function carried(of: Behavior, delivery: Delivery): Behavior {
  return { answer: of.answer, delivery: { ...of.delivery, ...delivery } };
}

/**
 * Events are counted as sent, including the opening one: 1 means "opened, but no word said", 0
 * "headers only". An answer that is not streamed stops at half of its body.
 */
function stopped(how: Stop, afterEvents: number, of: Behavior | undefined): Behavior {
  return carried(of ?? chatAnswer(words(afterEvents + 20)), { stop: { afterEvents, how } });
}

export function hangBeforeHeaders(of: Behavior = chatAnswer('never')): Behavior {
  return carried(of, { stop: { afterEvents: 'before-headers', how: 'hang' } });
}

export function resetBeforeHeaders(of: Behavior = chatAnswer('never')): Behavior {
  return carried(of, { stop: { afterEvents: 'before-headers', how: 'reset' } });
}

export function hangMidStream(afterEvents: number, of?: Behavior): Behavior {
  return stopped('hang', afterEvents, of);
}

export function resetMidStream(afterEvents: number, of?: Behavior): Behavior {
  return stopped('reset', afterEvents, of);
}

/**
 * Ends a stream without a finish reason or [DONE]; the HTTP is correct unless `how` says otherwise.
 */
export function cutMidStream(
  afterEvents: number,
  how: 'end-of-body' | 'connection' | 'mid-chunk' = 'end-of-body',
  of?: Behavior,
): Behavior {
  return stopped(how, afterEvents, of);
}

/** Waits after this many events until the test calls `open(name)`. */
export function gated(name: string, afterEvents: number, of?: Behavior): Behavior {
  return carried(of ?? chatAnswer(words(afterEvents + 5)), { gate: { name, afterEvents } });
}

export function delayed(delayMs: number, of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { delayMs });
}

/** Half an answer inside correct HTTP: only the JSON or the stream itself shows the loss. */
export function truncatedJson(atByte: number, of: Behavior = chatAnswer('cut short')): Behavior {
  return carried(of, { truncateAtByte: atByte });
}

export function splitCharacters(of: Behavior = chatAnswer('naïve 日本 😀 café')): Behavior {
  return carried(of, { splitCharacters: true });
}

export function slowDrip(
  bytes: number,
  everyMs: number,
  of: Behavior = chatAnswer('ok'),
): Behavior {
  return carried(of, { pieceBytes: bytes, pieceDelayMs: everyMs });
}

/** Compressed although the client did not ask for it; several layers are allowed. */
export function encoded(encodings: readonly Encoding[], of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { encodings });
}

/** Announces this many bytes more (positive: then closes) or fewer (negative) than it sends. */
export function wrongContentLength(off: number, of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { contentLengthOff: off });
}

export function untilClose(of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { untilClose: true });
}

/** Needs a script by path or '*': the model's name is in the body, which is not read yet. */
export function answerEarly(of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { early: true });
}

export function interimReplies(count: number, of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { interim: count });
}

/** Sends this many bytes of header lines before the headers end. */
export function endlessHeaders(bytes: number, of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, { headerFillBytes: bytes });
}

/**
 * Headers that a gateway must not pass on. The last one ends in Latin-1 bytes, as some real ones
 * do.
 */
export function setCookieAndOddHeaders(of: Behavior = chatAnswer('ok')): Behavior {
  return carried(of, {
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
