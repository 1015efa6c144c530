import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { Engine } from '../database.ts';
import { byBytes } from '../expressions.ts';

/** Tenants with this text in their name or id. */
export function tenantHolds(text: string, engine: Engine): RawBuilder<SqlBool> {
  return oneIsLike(['name', 'id'], `%${literal(text)}%`, engine);
}

/**
 * Keys with each of these words in their name or label, or with an id that begins with the text:
 * other parts of an id occur in many ids by chance.
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

/** Escapes with `!`: `standard_conforming_strings` may give a backslash a meaning of its own. */
function literal(text: string): string {
  const small = text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return small.replaceAll(/[!%_]/g, '!$&');
}

/** Ignores the case of A to Z only: SQLite knows the case of no other letters. */
export function plain(column: string, engine: Engine): RawBuilder<string> {
  return sql<string>`lower(${byBytes(column, engine)})`;
}
