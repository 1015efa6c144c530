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
  /** Returns a request ID whose position in the index looks random. */
  idOf(n: string): string;
  readonly hash: string;
}

const sqlite: EngineSql = {
  series: (first, last) =>
    `(with recursive series (n) as (
      select ${first} union all select n + 1 from series where n < ${last}
    ) select n from series) series`,
  idOf: (n) => `unhex(printf('%016x%016x', ${n} * 2654435761 % 4294967296, ${n}))`,
  hash: 'zeroblob(32)',
};

const postgres: EngineSql = {
  series: (first, last) => `generate_series(${first}::bigint, ${last}::bigint) as series (n)`,
  idOf: (n) => `decode(lpad(to_hex(${n} * 2654435761 % 4294967296), 16, '0')
    || lpad(to_hex(${n}), 16, '0'), 'hex')`,
  hash: "decode(repeat('00', 32), 'hex')",
};

/** Yields the statements in order. Rows and entries are numbered in the order of their times. */
function* statements(sql: EngineSql, { rows, from, until }: Filling): Generator<string> {
  const entries = Math.ceil(rows / rowsPerEntry);
  const perRow = (until - from) / rows;
  const arrival = (n: string) => `${from} + cast((${n} - 1) * ${perRow} as bigint)`;
  const daily = Math.floor(rows / ((until - from) / dayMs));
  const account = "(select id from accounts where owner = 'tenant:default')";
  const first = '(select max(id) from ledger_entries)';
  yield `insert into api_keys (id, tenant_id, kind, label, name, secret_hash, disabled,
      created_at, updated_at)
    select '${rareKey}', 'default', 'routing', '', 'rare', ${sql.hash}, 0, 0, 0`;
  yield `create table filling as select ${first} as entry, ${account} as account,
    (select balance from accounts where owner = 'tenant:default') as balance,
    (select min(id) from api_keys where kind = 'routing' and id <> '${rareKey}') as key_id`;
  for (let index = 1; index <= entries; index += rowsPerChunk) {
    yield `insert into ledger_entries (account_id, kind, amount, balance_after, note, created_at)
      select account, 'charge', ${-rowsPerEntry * chargePerRow},
        balance - n * ${rowsPerEntry * chargePerRow}, '',
        ${arrival(`(n * ${rowsPerEntry})`)} + 1000
      from ${sql.series(index, Math.min(entries, index + rowsPerChunk - 1))}, filling order by n`;
  }
  for (let index = 1; index <= rows; index += rowsPerChunk) {
    yield `insert into request_log (request_id, tenant_id, key_id, requested_model, provider,
        status, traffic_mode, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
        reasoning_tokens, model_charge, byok_platform_fee, managed_tool_fee, agent_runtime_fee,
        written_off, searches, duration_ms, details, entry_id, created_at)
      select ${sql.idOf('n')}, 'default',
        case when n % ${daily} = ${Math.floor(daily / 2)} then '${rareKey}'
          when n % 3 = 0 then key_id else 'key_other' || (n % 7) end,
        'acme/chat-' || (n % 5), 'acme',
        case when n % 100 = 0 then 'error' else 'success' end, 'shared',
        100 + n % 900, 0, 0, n % 400, 0, ${chargePerRow}, 0, 0, 0, 0, 0,
        300 + n % 4000, '${details}', entry + (n + ${rowsPerEntry - 1}) / ${rowsPerEntry},
        ${arrival('n')}
      from ${sql.series(index, Math.min(rows, index + rowsPerChunk - 1))}, filling order by n`;
  }
  const buckets = [
    ['usage_daily', dayMs],
    ['usage_hourly', hourMs],
  ] as const;
  for (let day = Math.floor(from / dayMs); day * dayMs < until; day += 1) {
    for (const [table, bucketMs] of buckets) {
      yield `insert into ${table}
        select tenant_id, created_at / ${bucketMs}, key_id, requested_model, provider,
          traffic_mode, count(*), sum(case when status = 'error' then 1 else 0 end),
          sum(input_tokens), sum(output_tokens), sum(model_charge), 0, 0, 0, 0, 0,
          sum(duration_ms)
        from request_log
        where tenant_id = 'default'
          and created_at >= ${day * dayMs} and created_at < ${(day + 1) * dayMs}
        group by 1, 2, 3, 4, 5, 6`;
    }
  }
  const spent = entries * rowsPerEntry * chargePerRow;
  yield `update accounts set balance = balance - ${spent}, spent = spent + ${spent}
    where owner = 'tenant:default'`;
  yield 'drop table filling';
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
  const steps = [...statements(sqlite, filling)];
  for (const [index, statement] of steps.entries()) {
    database.run(statement);
    onStep((index + 1) / steps.length);
  }
  database.close();
}

/** Statements that may run at the same time as others of their kind. */
const parallelKind = /^insert into (?:request_log|usage_daily|usage_hourly)\b/;
const connectionsMax = 8;

/**
 * Runs the statements on Postgres, several at a time. The indexes of the log are built afterward,
 * which takes a fraction of the time.
 */
export async function fillPostgres(url: string, filling: Filling): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: connectionsMax });
  const runAll = async (texts: readonly string[]) => {
    await Promise.all(texts.map((text) => pool.query(text)));
  };
  const { rows: indexes } = await pool.query<{ name: string; definition: string; text: string }>(
    `select indexrelid::regclass as name, pg_get_indexdef(indexrelid) as definition,
      pg_get_constraintdef(pg_constraint.oid) as text
    from pg_index left join pg_constraint on conindid = indexrelid and contype in ('p', 'u')
    where indrelid = 'request_log'::regclass`,
  );
  const change = (text: string) => `alter table request_log ${text}`;
  for (const { name, text } of indexes) {
    await pool.query(text ? change(`drop constraint ${name}`) : `drop index ${name}`);
  }
  const together: string[] = [];
  const finish = async () => runAll(together.splice(0));
  let kind = '';
  let isIndexed = false;
  for (const statement of statements(postgres, filling)) {
    const [nextKind = ''] = parallelKind.exec(statement) ?? [];
    if (nextKind !== kind || nextKind === '') await finish();
    if (kind.endsWith('request_log') && nextKind !== kind) {
      await runAll(indexes.filter(({ text }) => !text).map(({ definition }) => definition));
      for (const { name, text } of indexes)
        if (text) await pool.query(change(`add constraint ${name} ${text}`));
      await pool.query('vacuum analyze request_log');
      isIndexed = true;
    }
    kind = nextKind;
    together.push(statement);
    if (kind === '') await finish();
  }
  await finish();
  if (!isIndexed) throw new Error('The indexes of the log are missing.');
  // On a server that runs for longer, autovacuum does this.
  await pool.query('vacuum analyze');
  await pool.end();
}
