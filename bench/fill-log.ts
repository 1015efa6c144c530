/** Inserts millions of booked requests with SQL: the same rows that the batch writer writes. */
import { Database } from 'bun:sqlite';
import pg from 'pg';

export interface Filling {
  readonly rows: number;
  /** The start of the period in epoch milliseconds. Requests are spread evenly over the period. */
  readonly from: number;
  readonly until: number;
}

/** A key with 1 request per day. All other keys are busy. */
export const rareKey = 'key_rare';

const rowsPerChunk = 100_000;
const rowsPerEntry = 50;
const chargePerRow = 10;
const dayMs = 86_400_000;
const hourMs = 3_600_000;

const details = JSON.stringify({
  operation: 'chat',
  model: 'acme/chat-1',
  prices: { prompt: '0.5', completion: '1.5' },
  attempts: [{ provider: 'acme', model: 'acme/chat-1', outcome: 'ok', status: 200, ms: 812 }],
  finishReason: 'stop',
  firstByteMs: 120,
  user: 'user-4711',
  streamed: true,
});

/** The SQL expressions that differ between the engines. */
interface EngineSql {
  /** Returns a table `series (n)` with the numbers of a range. */
  series(first: number, last: number): string;
  /** Returns a request ID that starts with its time, like those of the gateway. */
  idOf(n: string, time: string): string;
  readonly hash: string;
}

const sqlite: EngineSql = {
  series: (first, last) =>
    `(with recursive series (n) as (
      select ${first} union all select n + 1 from series where n < ${last}
    ) select n from series) series`,
  idOf: (n, time) => `unhex(printf('%08x%08x%016x',
    ${time} / 1000, ${n} * 2654435761 % 4294967296, ${n}))`,
  hash: 'zeroblob(32)',
};

const postgres: EngineSql = {
  series: (first, last) => `generate_series(${first}::bigint, ${last}::bigint) as series (n)`,
  idOf: (n, time) => `decode(lpad(to_hex(${time} / 1000), 8, '0')
    || lpad(to_hex(${n} * 2654435761 % 4294967296), 8, '0') || lpad(to_hex(${n}), 16, '0'), 'hex')`,
  hash: "decode(repeat('00', 32), 'hex')",
};

/** What the statements of an engine have in common. Rows and entries are numbered by time. */
function fillingOf(sql: EngineSql, { rows, from, until }: Filling) {
  const perRow = (until - from) / rows;
  const daily = Math.floor(rows / ((until - from) / dayMs));
  const arrival = (n: string) => `${from} + cast(floor((${n} - 1) * ${perRow}) as bigint)`;
  return {
    entries: Math.ceil(rows / rowsPerEntry),
    /** The number of the first row at or after a time, or a little less. */
    firstAt: (time: number) => Math.max(1, Math.floor((time - from) / perRow) - 1),
    arrival,
    insertEntries: (first: number, last: number) => `insert into ledger_entries
        (account_id, kind, amount, balance_after, note, created_at)
      select account, 'charge', ${-rowsPerEntry * chargePerRow},
        balance - n * ${rowsPerEntry * chargePerRow}, '',
        ${arrival(`(n * ${rowsPerEntry})`)} + 1000
      from ${sql.series(first, last)}, filling order by n`,
    insertRows: (
      table: string,
      first: number,
      last: number,
      where = 'true',
    ) => `insert into ${table}
        (id, request_id, tenant_id, key_id, requested_model, provider,
        status, traffic_mode, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
        reasoning_tokens, model_charge, byok_platform_fee, managed_tool_fee, agent_runtime_fee,
        written_off, searches, duration_ms, details, entry_id, created_at)
      select n, ${sql.idOf('n', arrival('n'))}, 'default',
        case when n % ${daily} = ${Math.floor(daily / 2)} then '${rareKey}'
          when n % 3 = 0 then key_id else 'key_other' || (n % 7) end,
        'acme/chat-' || (n % 5), 'acme',
        case when n % 100 = 0 then 'error' else 'success' end, 'shared',
        100 + n % 900, 0, 0, n % 400, 0, ${chargePerRow}, 0, 0, 0, 0, 0,
        300 + n % 4000, '${details}', entry + (n + ${rowsPerEntry - 1}) / ${rowsPerEntry},
        ${arrival('n')}
      from ${sql.series(first, last)}, filling where ${where}`,
  };
}

const account = "(select id from accounts where owner = 'tenant:default')";

const prepare = (sql: EngineSql) => [
  `insert into api_keys (id, tenant_id, kind, label, name, secret_hash, disabled,
      created_at, updated_at)
    select '${rareKey}', 'default', 'routing', '', 'rare', ${sql.hash}, 0, 0, 0`,
  `create table filling as select (select max(id) from ledger_entries) as entry,
    ${account} as account,
    (select balance from accounts where owner = 'tenant:default') as balance,
    (select min(id) from api_keys where kind = 'routing' and id <> '${rareKey}') as key_id`,
];

const finish = (entries: number) => [
  `update accounts set balance = balance - ${entries * rowsPerEntry * chargePerRow},
    spent = spent + ${entries * rowsPerEntry * chargePerRow} where owner = 'tenant:default'`,
  'drop table filling',
];

/** Returns pairs of the first and the last number of each chunk. */
function chunks(count: number): [number, number][] {
  return Array.from({ length: Math.ceil(count / rowsPerChunk) }, (_, index) => [
    index * rowsPerChunk + 1,
    Math.min(count, (index + 1) * rowsPerChunk),
  ]);
}

/** Returns a statement for the sums of each day. */
function sums({ from, until }: Filling): string[] {
  const days = Array.from(
    { length: Math.ceil(until / dayMs) - Math.floor(from / dayMs) },
    (_, index) => Math.floor(from / dayMs) + index,
  );
  const buckets = [
    ['usage_daily', dayMs],
    ['usage_hourly', hourMs],
  ] as const;
  return days.flatMap((day) =>
    buckets.map(
      ([table, bucketMs]) => `insert into ${table}
        select tenant_id, created_at / ${bucketMs}, key_id, requested_model, provider,
          traffic_mode, count(*), sum(case when status = 'error' then 1 else 0 end),
          sum(input_tokens), sum(output_tokens), sum(model_charge), 0, 0, 0, 0, 0,
          sum(duration_ms)
        from request_log
        where tenant_id = 'default'
          and created_at >= ${day * dayMs} and created_at < ${(day + 1) * dayMs}
        group by 1, 2, 3, 4, 5, 6`,
    ),
  );
}

/** Runs the statements on SQLite. Calls `onStep` with the progress from 0 to 1. */
export async function fillSqlite(
  file: string,
  filling: Filling,
  onStep: (share: number) => void = () => {},
): Promise<void> {
  const database = new Database(file);
  database.run('pragma synchronous = off');
  database.run('pragma cache_size = -200000');
  const { entries, insertEntries, insertRows } = fillingOf(sqlite, filling);
  const steps = [
    ...prepare(sqlite),
    ...chunks(entries).map(([first, last]) => insertEntries(first, last)),
    ...chunks(filling.rows).map(([first, last]) => insertRows('request_log', first, last)),
    ...sums(filling),
    ...finish(entries),
  ];
  for (const [index, statement] of steps.entries()) {
    database.run(statement);
    onStep((index + 1) / steps.length);
  }
  database.close();
}

const connectionsMax = 16;
const daysPerPartition = 7;

/**
 * Fills Postgres on several connections: a partition each, with its indexes built afterward, which
 * takes a fraction of the time.
 */
export async function fillPostgres(url: string, filling: Filling): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: connectionsMax });
  const runEach = (texts: readonly string[]) => Promise.all(texts.map((text) => pool.query(text)));
  const { entries, insertEntries } = fillingOf(postgres, filling);
  for (const text of prepare(postgres)) await pool.query(text);
  for (const [first, last] of chunks(entries)) await pool.query(insertEntries(first, last));
  // Of the gateway, empty.
  const { rows } = await pool.query<{ drop: string }>(
    `select 'drop table ' || inhrelid::regclass as drop from pg_inherits
    where inhparent = 'request_log'::regclass and inhrelid <> 'request_log_default'::regclass`,
  );
  for (const { drop } of rows) await pool.query(drop);
  const spanMs = daysPerPartition * dayMs;
  const starts = Array.from(
    { length: Math.ceil((filling.until - filling.from) / spanMs) },
    (_, index) => filling.from + index * spanMs,
  );
  await Promise.all(starts.map((from) => fillPartition(pool, filling, from, from + spanMs)));
  await pool.query(`alter table request_log alter column id restart with ${filling.rows + 1}`);
  await runEach(sums(filling));
  for (const text of finish(entries)) await pool.query(text);
  // On a server that runs for longer, autovacuum does this.
  await pool.query('vacuum analyze');
  await pool.end();
}

async function fillPartition(
  pool: pg.Pool,
  filling: Filling,
  from: number,
  until: number,
): Promise<void> {
  const name = `request_log_from_${new Date(from).toISOString().slice(0, 10).replaceAll('-', '')}`;
  const { arrival, firstAt, insertRows } = fillingOf(postgres, filling);
  const isIn = (time: string) => `${time} >= ${from} and ${time} < ${until}`;
  await pool.query(`create table ${name} (like request_log including defaults including constraints,
    constraint ${name}_is_in check (${isIn('created_at')}))`);
  const last = Math.min(filling.rows, firstAt(until) + 2);
  await pool.query(insertRows(name, firstAt(from), last, isIn(arrival('n'))));
  await pool.query(`create unique index on ${name} (request_id)`);
  const { rows } = await pool.query<{ definition: string }>(
    `select pg_get_indexdef(indexrelid) as definition from pg_index
    where indrelid = 'request_log'::regclass`,
  );
  for (const { definition } of rows) {
    const columns = definition.slice(definition.indexOf(' USING '));
    await pool.query(`create index on ${name}${columns}`);
  }
  await pool.query(
    `alter table request_log attach partition ${name} for values from (${from}) to (${until})`,
  );
}
