/** Fields that we do not know, a few of which some servers read as known ones. */
import { dearer } from '../account/priced-apart.ts';
import type { Edits } from './edit-body.ts';

const none = {};

/** The fields of a request that are unknown to us; its provider may know them. */
export function unknownFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(body).filter(
    ([name, value]) => !Object.hasOwn(known, name) && value !== null,
  );
  return unknown.length === 0 ? none : Object.fromEntries(unknown);
}

/** The unknown fields to send beside known ones: none that a server could read as a known one. */
export function otherFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(unknownFields(body, known));
  return Object.fromEntries(unknown.filter(([name]) => !isLookalike(name, known)));
}

/** Nearly every name is written so, and such a name cannot be a look-alike. */
const smallName = /^[a-z0-9_]*$/;

/**
 * Whether a name differs from a known one only in capitals. Servers written in Go read `Model` as
 * `model` and take the last of the two, which was neither checked nor priced.
 */
function isLookalike(name: string, known: object): boolean {
  if (smallName.test(name) || Object.hasOwn(known, name)) return false;
  const word = asGoReads(name);
  return Object.hasOwn(known, word) || dearer.has(word);
}

/**
 * Folds capitals as Go does when it compares names: the long s is an s, the Kelvin sign a k.
 */
export function asGoReads(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function leaveOutLookalikes(body: object, known: object, edits: Edits): void {
  for (const name in body) if (isLookalike(name, known)) edits[name] = undefined;
}
