import { timingSafeEqual } from 'node:crypto';
import type { KeyKind } from '../core/caller.ts';
import { randomText } from '../core/ids.ts';

/** How keys look: `sk-tg-<public id>-<secret>`. The whole text is secret; its hash is stored. */
const prefixes: Readonly<Record<KeyKind | 'admin', string>> = {
  routing: 'sk-tg-',
  management: 'sk-mgmt-',
  admin: 'sk-admin-',
};

export interface NewKey {
  readonly id: string;
  readonly text: string;
  readonly hash: Uint8Array;
  readonly label: string;
}

/** A fresh key of 36⁴⁰ possibilities. `id` keeps a rotated key's public id. */
export function makeKey(kind: KeyKind, id = `key_${randomText(16)}`): NewKey {
  const text = `${prefixes[kind]}${id.replace('key_', '')}-${randomText(40)}`;
  return { id, text, ...hashAndLabel(text) };
}

/** What is stored of a key's text. */
export function hashAndLabel(text: string): Pick<NewKey, 'hash' | 'label'> {
  return { hash: hashKey(text), label: labelOf(text) };
}

/** An id that no key can have is not looked up: a store may refuse its bytes. */
export function isKeyId(text: string): boolean {
  return /^key_[0-9a-z]{1,60}$/.test(text);
}

export function makeAdminToken(): string {
  return `${prefixes.admin}${randomText(48)}`;
}

export function hashKey(text: string): Uint8Array {
  const hash = new Uint8Array(32);
  Bun.SHA256.hash(text, hash);
  return hash;
}

/** Compares secrets by hash, in time that does not depend on where they differ. */
export function sameHash(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The kind a key text claims by its prefix; the store has the last word. */
export function claimedKind(text: string): KeyKind | 'admin' | undefined {
  if (text.startsWith(prefixes.routing)) return 'routing';
  if (text.startsWith(prefixes.management)) return 'management';
  if (text.startsWith(prefixes.admin)) return 'admin';
  return undefined;
}

/** `sk-tg-ab12…9f` */
function labelOf(text: string): string {
  const start = text.indexOf('-', 3) + 1;
  return `${text.slice(0, start + 4)}…${text.slice(-2)}`;
}
