import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type Kysely, sql } from 'kysely';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { ActiveClock } from '../../../tests/support/active-clock.ts';
import { type OwnPostgres, startOwnPostgres } from '../../../tests/support/postgres.ts';
import { type Database, waitingCallsMax } from '../database.ts';
import type { Schema } from '../schema.ts';
import { openPostgres } from './postgres.ts';

/** Long enough for slow machines; overridden by tests that wait for a timeout. */
const bounds = {
  connectionsMax: 2,
  statementTimeoutMs: 50_000,
  answerTimeoutMs: 60_000,
  idleTransactionMs: 50_000,
};

describe('openPostgres', () => {
  let server: OwnPostgres;

  beforeAll(async () => {
    server = await startOwnPostgres({ durable: false });
  }, 120_000);

  afterAll(() => server.stop());

  async function withDatabase(
    work: (database: Database) => Promise<void>,
    others: Partial<typeof bounds> = {},
  ): Promise<void> {
    const database = await openPostgres(server.url, { ...bounds, ...others });
    try {
      await work(database);
    } finally {
      await database.close();
    }
  }

  describe('rejects, without repeating the password,', () => {
    const wrong: [string, (url: URL) => void, RegExp][] = [
      ['a closed port', (url) => (url.port = '1'), /:1\/postgres .*: connection refused\.$/],
      ['a wrong password', (url) => (url.password = 'hunter2'), /: wrong user or password\.$/],
      ['no password', (url) => (url.password = ''), /: it requires a password, but .* has one\.$/],
      [
        'a missing database',
        (url) => (url.pathname = '/nowhere'),
        /: the database does not exist\.$/,
      ],
      ['an unknown host', (url) => (url.hostname = 'db.invalid'), /: the host name [^.]+\.$/],
    ];

    test.each(wrong)('%s', async (_name, change, sentence) => {
      const url = new URL(server.url);
      change(url);
      const { message } = await failureOf(openPostgres(url.href));
      expect(message).toMatch(/^Postgres at \S+ cannot be reached: /);
      expect(message).toMatch(sentence);
      expect(message).not.toContain(url.password || server.url);
    });

    test('an invalid URL', async () => {
      const { message } = await failureOf(openPostgres('postgres://me:hunter2@[bad:5432/x'));
      expect(message).toMatch(/^The database URL is not a valid postgres:\/\/ URL\. .+ %40 .+\.$/);
      expect(message).not.toContain('hunter2');
    });
  });

  test('rejects a server with synchronous_commit off', async () => {
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    await withDatabase(async ({ write }) => {
      await sql`alter database ${sql.id(name)} set synchronous_commit = off`.execute(write);
    });
    const { message } = await failureOf(openPostgres(url));
    expect(message).toMatch(/^Postgres at \S+ has synchronous_commit off, [^.]+\.$/);
  });

  test('cancels a statement that exceeds its time limit, and keeps the connection', async () => {
    const giveUp = async (database: Database) => {
      const slow = sql`select pg_sleep(100)`.execute(database.read);
      expect(await failureOf(slow)).toMatchObject({ code: '57014' });
      await database.ping();
    };
    await withDatabase(giveUp, { statementTimeoutMs: 2_000 });
  });

  test('rejects calls beyond the queue limit', async () => {
    await withDatabase(async (database) => {
      // Keep both connections busy while the other calls arrive.
      const gate = Promise.withResolvers<void>();
      const taken = [0, 1].map(() => {
        const begun = Promise.withResolvers<void>();
        const ended = database.write.transaction().execute(async () => {
          begun.resolve();
          await gate.promise;
        });
        return { begun: begun.promise, ended };
      });
      await Promise.all(taken.map(({ begun }) => begun));
      const calls = Array.from({ length: waitingCallsMax + 100 }, () =>
        database.ping().then(
          () => 'answered',
          (error: Error) => error.message,
        ),
      );
      const busy = `The database is too busy: ${waitingCallsMax} calls are already waiting.`;
      expect(await Promise.all(calls.slice(waitingCallsMax))).toEqual(Array(100).fill(busy));
      gate.resolve();
      await Promise.all(taken.map(({ ended }) => ended));
      // A slow machine may not serve all of these in time, but all were queued.
      expect(await Promise.all(calls.slice(0, waitingCallsMax))).not.toContain(busy);
    });
  });

  test('reconnects after the server has crashed and restarted', async () => {
    await withDatabase(async (database) => {
      await Promise.all([database.ping(), database.ping()]);
      const cut = database.write.transaction().execute(async (change) => {
        await sql`select 1`.execute(change);
        await server.halt('immediate');
        await sql`select 1`.execute(change);
      });
      await failureOf(cut);
      expect((await failureOf(database.ping())).message).toMatch(/refused|terminated|closed/i);
      await server.start();
      await database.ping();
    });
  }, 120_000);

  test('times out when the server freezes, and drops the stuck connections', async () => {
    const answerTimeoutMs = 4_000;
    const freeze = async (database: Database) => {
      using activeClock = new ActiveClock();
      const stuck: number[] = [];
      let pausedAt = 0;
      const cut = database.write.transaction().execute(async (change) => {
        stuck.push(await sessionOf(change));
        server.pause();
        pausedAt = activeClock.ms;
        await sessionOf(change);
      });
      expect((await failureOf(cut)).message).toBe('Query read timeout');
      // A rollback that waited for the stuck statement would have taken as long again.
      expect(activeClock.ms - pausedAt).toBeLessThan(2 * answerTimeoutMs);
      server.resume();
      expect(stuck).not.toContain(await sessionOf(database.read));
    };
    await withDatabase(freeze, { answerTimeoutMs });
  }, 120_000);
});

async function sessionOf(db: Kysely<Schema>): Promise<number> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db);
  return rows[0]?.pid ?? 0;
}
