import { sql } from 'kysely';
import type { Database } from './database.ts';
import { everyTable } from './move.ts';
import type { Schema } from './schema.ts';
import { unusable } from './unusable.ts';

/**
 * Refuses a database that is up to date and has lost a table, after a partial restore for example,
 * or whose user may not use one: a gateway would serve on it and book nothing.
 */
export async function requireTables(database: Database): Promise<void> {
  const found = database.engine === 'sqlite' ? await inFile(database) : await onServer(database);
  const lost = everyTable.find((name) => !found.has(name));
  if (lost !== undefined) {
    throw unusable(`The database has lost its table ${lost}: restore a backup of all its tables.`);
  }
  const closed = everyTable.find((name) => found.get(name) === false);
  if (closed === undefined) return;
  throw unusable(
    `This user of the database may not read and change its table ${closed}: grant it SELECT, ` +
      'INSERT, UPDATE and DELETE on all tables.',
  );
}

/** The tables that there are, and whether we may use them. */
type Tables = ReadonlyMap<string, boolean>;

async function inFile({ read }: Database): Promise<Tables> {
  const look = sql<{ name: string }>`select name from sqlite_master where type = 'table'`;
  const { rows } = await look.execute(read);
  return new Map(rows.map(({ name }) => [name, true]));
}

/** Only a role that migrates changes the list of migrations. */
const rightsOn = (table: keyof Schema): string =>
  table === 'migrations' ? 'select' : 'select,insert,update,delete';

async function onServer({ read }: Database): Promise<Tables> {
  const wanted = sql.join(everyTable.map((name) => sql`(${name}::text, ${rightsOn(name)}::text)`));
  // Asked for one right after the other: of a list, Postgres is content with any.
  const { rows } = await sql<{ name: string; is_open: boolean }>`
    select wanted.name, bool_and(has_table_privilege(pg_class.oid, one)) as is_open
    from (values ${wanted}) as wanted (name, rights)
    join pg_class on pg_class.relname = wanted.name and pg_class.relkind in ('r', 'p')
    join pg_namespace on pg_namespace.oid = pg_class.relnamespace
    cross join lateral unnest(string_to_array(wanted.rights, ',')) as one
    where pg_namespace.nspname = current_schema()
    group by wanted.name
  `.execute(read);
  return new Map(rows.map(({ name, is_open }) => [name, is_open]));
}
