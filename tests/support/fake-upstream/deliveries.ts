/** Builders of how an answer travels. Each takes any behaviour and changes only its way. */

import { say, words } from './answers.ts';
import type { Behaviour, Delivery, Encoding, Stop } from './behaviour.ts';

function carried(of: Behaviour, delivery: Delivery): Behaviour {
  return { answer: of.answer, delivery: { ...of.delivery, ...delivery } };
}

/**
 * Events count as they stand on the wire, the opening one included, so 1 is "opened, but not one
 * word said". Zero is "headers only". A whole (not streamed) answer stops at half of its body.
 */
function stopped(how: Stop, afterEvents: number, of: Behaviour | undefined): Behaviour {
  return carried(of ?? say(words(afterEvents + 20)), { stop: { afterEvents, how } });
}

export function hangBeforeHeaders(of: Behaviour = say('never')): Behaviour {
  return carried(of, { stop: { afterEvents: 'before-headers', how: 'hang' } });
}

export function resetBeforeHeaders(of: Behaviour = say('never')): Behaviour {
  return carried(of, { stop: { afterEvents: 'before-headers', how: 'reset' } });
}

export function hangMidStream(afterEvents: number, of?: Behaviour): Behaviour {
  return stopped('hang', afterEvents, of);
}

export function resetMidStream(afterEvents: number, of?: Behaviour): Behaviour {
  return stopped('reset', afterEvents, of);
}

/** Neither a finish nor [DONE]; at the level of HTTP all is well, unless `how` says otherwise. */
export function cutMidStream(
  afterEvents: number,
  how: 'end-of-body' | 'connection' | 'mid-chunk' = 'end-of-body',
  of?: Behaviour,
): Behaviour {
  return stopped(how, afterEvents, of);
}

/** Waits after so many events until the test calls `open(name)`. */
export function gated(name: string, afterEvents: number, of?: Behaviour): Behaviour {
  return carried(of ?? say(words(afterEvents + 5)), { gate: { name, afterEvents } });
}

export function delayed(delayMs: number, of: Behaviour = say('ok')): Behaviour {
  return carried(of, { delayMs });
}

/** Half an answer inside correct HTTP: only the JSON or the stream itself shows the loss. */
export function truncatedJson(atByte: number, of: Behaviour = say('cut short')): Behaviour {
  return carried(of, { truncateAtByte: atByte });
}

export function halfUtf8Character(of: Behaviour = say('naïve 日本 😀 café')): Behaviour {
  return carried(of, { splitCharacters: true });
}

export function slowDrip(bytes: number, everyMs: number, of: Behaviour = say('ok')): Behaviour {
  return carried(of, { pieceBytes: bytes, pieceDelayMs: everyMs });
}

/** Compressed although nobody asked; several layers are allowed. */
export function encoded(encodings: readonly Encoding[], of: Behaviour = say('ok')): Behaviour {
  return carried(of, { encodings });
}

/** Promises so many bytes more (positive: then closes) or fewer (negative) than it sends. */
export function wrongContentLength(off: number, of: Behaviour = say('ok')): Behaviour {
  return carried(of, { contentLengthOff: off });
}

export function untilClose(of: Behaviour = say('ok')): Behaviour {
  return carried(of, { untilClose: true });
}

/** Needs a script by path or '*': the model's name is in the body that nobody has read yet. */
export function answerEarly(of: Behaviour = say('ok')): Behaviour {
  return carried(of, { early: true });
}

export function interimReplies(count: number, of: Behaviour = say('ok')): Behaviour {
  return carried(of, { interim: count });
}

/** Header lines up to so many bytes before the headers end. */
export function endlessHeaders(bytes: number, of: Behaviour = say('ok')): Behaviour {
  return carried(of, { headerFillBytes: bytes });
}

/** Headers that a gateway must not hand on. Latin-1 bytes end the last one, as real ones do. */
export function setCookieAndOddHeaders(of: Behaviour = say('ok')): Behaviour {
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
