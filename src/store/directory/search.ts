import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { Engine } from '../database.ts';
import { byBytes } from '../expressions.ts';

/** Tenants with this text in their name or id. */
export function tenantHolds(text: string, engine: Engine): RawBuilder<SqlBool> {
  return oneIsLike(['name', 'id'], `%${literal(text)}%`, engine);
}

/**
 * Keys with each of these words in their name or label. A part of an id is in many by chance, so
 * that only its beginning counts.
 */
export function keyHolds(text: string, engine: Engine): RawBuilder<SqlBool> {
  const hasWord = (word: string) => oneIsLike(['name', 'label'], `%${literal(word)}%`, engine);
  const hasAll = sql.join(text.split(/\s+/).map(hasWord), sql` and `);
  return sql<SqlBool>`(${oneIsLike(['id'], `${literal(text)}%`, engine)} or (${hasAll}))`;
}

function oneIsLike(columns: readonly string[], pattern: string, engine: Engine) {
  const isLike = (column: string) => sql`${plain(column, engine)} like ${pattern} escape '!'`;
  return sql<SqlBool>`(${sql.join(columns.map(isLike), sql` or `)})`;
}

/** Not with a backslash, which `standard_conforming_strings` may give a meaning of its own. */
function literal(text: string): string {
  const small = text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return small.replaceAll(/[!%_]/g, '!$&');
}

/** Without the case of A to Z, and of no other letters: SQLite knows no more than these. */
export function plain(column: string, engine: Engine): RawBuilder<string> {
  return sql<string>`lower(${byBytes(column, engine)})`;
}
