import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type Kysely, sql } from 'kysely';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { Awake } from '../../../tests/support/awake.ts';
import { type OwnPostgres, startOwnPostgres } from '../../../tests/support/postgres.ts';
import { type Database, waitingCallsMax } from '../database.ts';
import type { Schema } from '../schema.ts';
import { openPostgres } from './postgres.ts';

/** Long enough for slow machines where an answer comes; short only where none ever does. */
const bounds = {
  connectionsMax: 2,
  statementTimeoutMs: 50_000,
  answerTimeoutMs: 60_000,
  idleTransactionMs: 50_000,
};

describe('Postgres', () => {
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

  describe('at a wrong address is refused in one sentence, without its password', () => {
    const wrong: [string, (url: URL) => void, RegExp][] = [
      ['nobody listens', (url) => (url.port = '1'), /:1\/postgres .*: connection refused\.$/],
      ['a wrong password', (url) => (url.password = 'hunter2'), /: user or password refused\.$/],
      ['no password', (url) => (url.password = ''), /: it asks for a password, and .* has one\.$/],
      [
        'no such database',
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

    test('an address that is no URL', async () => {
      const { message } = await failureOf(openPostgres('postgres://me:hunter2@[bad:5432/x'));
      expect(message).toMatch(
        /^The database address is not a valid postgres:\/\/ URL; .+ %40 .+\.$/,
      );
      expect(message).not.toContain('hunter2');
    });
  });

  test('that forgets commits in a crash is refused, naming the setting', async () => {
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    await withDatabase(async ({ write }) => {
      await sql`alter database ${sql.id(name)} set synchronous_commit = off`.execute(write);
    });
    const { message } = await failureOf(openPostgres(url));
    expect(message).toMatch(/^Postgres at \S+ has synchronous_commit off, [^.]+\.$/);
  });

  test('gives up a statement that takes too long, and the connection stays usable', async () => {
    const giveUp = async (database: Database) => {
      const slow = sql`select pg_sleep(100)`.execute(database.read);
      expect(await failureOf(slow)).toMatchObject({ code: '57014' });
      await database.ping();
    };
    await withDatabase(giveUp, { statementTimeoutMs: 2_000 });
  });

  test('refuses calls beyond the bound of those who wait', async () => {
    await withDatabase(async (database) => {
      // Both connections are taken while all others come.
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
      const asked = Array.from({ length: waitingCallsMax + 100 }, () =>
        database.ping().then(
          () => 'answered',
          (error: Error) => error.message,
        ),
      );
      const busy = `The database is too busy: ${waitingCallsMax} calls are waiting already.`;
      expect(await Promise.all(asked.slice(waitingCallsMax))).toEqual(Array(100).fill(busy));
      gate.resolve();
      await Promise.all(taken.map(({ ended }) => ended));
      // A slow machine may not serve all of these in time, but all had a place in the queue.
      expect(await Promise.all(asked.slice(0, waitingCallsMax))).not.toContain(busy);
    });
  });

  test('that crashes is used again once it is back', async () => {
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

  test('that freezes is given up in time, and its stuck connections are dropped', async () => {
    const answerTimeoutMs = 4_000;
    const freeze = async (database: Database) => {
      using awake = new Awake();
      const stuck: number[] = [];
      let pausedAt = 0;
      const cut = database.write.transaction().execute(async (change) => {
        stuck.push(await sessionOf(change));
        server.pause();
        pausedAt = awake.ms;
        await sessionOf(change);
      });
      expect((await failureOf(cut)).message).toBe('Query read timeout');
      // A rollback behind the stuck statement would have waited as long again.
      expect(awake.ms - pausedAt).toBeLessThan(2 * answerTimeoutMs);
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
