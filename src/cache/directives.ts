/** What a request's `Cache-Control` asks of the response cache. */
export interface Directives {
  /** False: the answer must be fresh. */
  readonly mayRead: boolean;
  /** False: the answer must not be kept. */
  readonly mayWrite: boolean;
  /** The greatest age of an answer that will do; null: as old as the cache keeps them. */
  readonly maxAgeSeconds: number | null;
}

const anything: Directives = { mayRead: true, mayWrite: true, maxAgeSeconds: null };

export function readDirectives(header: string | null): Directives {
  if (header === null) return anything;
  const words = header.toLowerCase().split(',');
  const names = words.map((word) => word.trim());
  if (names.includes('no-store')) return { ...anything, mayRead: false, mayWrite: false };
  if (names.includes('no-cache')) return { ...anything, mayRead: false };
  const age = names.map((name) => /^max-age="?(\d{1,9})"?$/.exec(name)?.[1]).find(Boolean);
  return age === undefined ? anything : { ...anything, maxAgeSeconds: Number(age) };
}
