import { surchargedParameters } from './restricted-parameters.ts';

// Handles unknown fields, some of which a server may read as known ones.

const noFields = {};

/** Returns the fields that the gateway doesn't know. The provider may know them. */
export function unknownFields(body: object, known: object): Readonly<Record<string, unknown>> {
  for (const name in body) {
    // Most requests have none, so nothing is built for them.
    if (!Object.hasOwn(known, name)) return unknownEntries(body, known);
  }
  return noFields;
}

function unknownEntries(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(body).filter(
    ([name, value]) => !Object.hasOwn(known, name) && value !== null,
  );
  return unknown.length === 0 ? noFields : Object.fromEntries(unknown);
}

/** Returns the unknown fields to forward, without those that a server could read as known ones. */
export function forwardableFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(unknownFields(body, known));
  return Object.fromEntries(unknown.filter(([name]) => !isLookalike(name, known)));
}

/** Matches nearly every name. Such a name has no case to fold, so it can't be a look-alike. */
export const lowercaseName = /^[a-z0-9_]*$/;

/**
 * Returns true if a name differs from a known one only in case. A server written in Go reads
 * `Model` as `model` and uses the last of the two fields, which wasn't checked or priced.
 */
function isLookalike(name: string, known: object): boolean {
  if (lowercaseName.test(name) || Object.hasOwn(known, name)) return false;
  const folded = foldCase(name);
  return Object.hasOwn(known, folded) || surchargedParameters.has(folded);
}

/**
 * Folds case as Go does when it compares names. The long s (ſ) becomes s, and the Kelvin sign
 * becomes k.
 */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}
