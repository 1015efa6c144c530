/** Fields beyond those that we know: some servers take a few of them for ones that we do. */
import { dearer } from '../account/priced-apart.ts';
import type { Edits } from './edit-body.ts';

const none = {};

/** What a client asks beyond the fields we know: its provider may know them. */
export function unknownFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(body).filter(
    ([name, value]) => !Object.hasOwn(known, name) && value !== null,
  );
  return unknown.length === 0 ? none : Object.fromEntries(unknown);
}

/** Those that go on beside words of ours: none that a server could take for one of them. */
export function otherFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(unknownFields(body, known));
  return Object.fromEntries(unknown.filter(([name]) => !isLookalike(name, known)));
}

/** As nearly every name is written. */
const smallName = /^[a-z0-9_]*$/;

/**
 * Whether a name is one of ours but for capitals. Servers written in Go read `Model` as `model` and
 * take the last of the two, which nobody here has checked or priced.
 */
function isLookalike(name: string, known: object): boolean {
  if (smallName.test(name) || Object.hasOwn(known, name)) return false;
  const word = asGoReads(name);
  return Object.hasOwn(known, word) || dearer.has(word);
}

/**
 * By way of capitals, as Go compares names: so the long s and the sign of Kelvin are an s and a k.
 */
export function asGoReads(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function leaveOutLookalikes(body: object, known: object, edits: Edits): void {
  for (const name in body) if (isLookalike(name, known)) edits[name] = undefined;
}
