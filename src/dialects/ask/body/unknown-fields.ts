import { isLookalike } from './edit-body.ts';

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
