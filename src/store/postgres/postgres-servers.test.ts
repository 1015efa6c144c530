/** Tests against Postgres in various setups: poolers, settings, replicas, TLS, restricted roles. */
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import pg from 'pg';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { makeTenant } from '../../../tests/contracts/engines.ts';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { callerOf } from '../../../tests/support/caller.ts';
import { startPooler } from '../../../tests/support/pooler.ts';
import { type OwnPostgres, startOwnPostgres } from '../../../tests/support/postgres.ts';
import { waitUntil, within } from '../../../tests/support/wait-until.ts';
import { Wallets } from '../../money/hold/wallets.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { openStore, openWhenReachable } from '../open.ts';
import { openPostgres } from './postgres.ts';

let server: OwnPostgres;

beforeAll(async () => {
  server = await startOwnPostgres({ durable: false });
}, 120_000);

afterAll(() => server.stop());

/** Runs statements as the server's owner. */
async function runAsOwner(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

const nameOf = (url: string) => new URL(url).pathname.slice(1);

/** Creates a database with these settings, in the form of `alter database … set`. */
async function databaseWith(...settings: string[]): Promise<string> {
  const url = await server.createDatabase();
  await runAsOwner(
    server.url,
    ...settings.map((setting) => `alter database ${nameOf(url)} set ${setting}`),
  );
  return url;
}

/** Reads the settings in effect inside a transaction. */
async function settingsOf(url: string): Promise<unknown> {
  const database = await openPostgres(url);
  try {
    return await database.write.transaction().execute(async (change) => {
      const { rows } = await sql`
        select current_setting('transaction_isolation') as isolation,
          current_setting('lock_timeout') as lock,
          current_setting('statement_timeout') as statement,
          current_setting('idle_in_transaction_session_timeout') as idle,
          current_setting('transaction_timeout') as transaction
      `.execute(change);
      return rows[0];
    });
  } finally {
    await database.close();
  }
}

const expectedSettings = {
  isolation: 'read committed',
  lock: '0',
  statement: '10s',
  idle: '3s',
  transaction: '0',
};

describe('openPostgres', () => {
  test('overrides time limits and isolation of the server in transactions', async () => {
    const url = await databaseWith(
      "lock_timeout = '9s'",
      "statement_timeout = '9s'",
      "idle_in_transaction_session_timeout = '9s'",
      "transaction_timeout = '9s'",
      "default_transaction_isolation = 'serializable'",
    );
    expect(await settingsOf(url)).toEqual(expectedSettings);
  });

  test('overrides time limits of the server outside of transactions', async () => {
    const url = await databaseWith("lock_timeout = '20ms'", "statement_timeout = '20ms'");
    const database = await openPostgres(url);
    const { rows } = await sql`
      select current_setting('lock_timeout') as lock,
        current_setting('statement_timeout') as statement
    `.execute(database.read);
    expect(rows).toEqual([{ lock: '10s', statement: '10s' }]);
    await database.close();
  });

  test('sets its limits behind a pooler that rejects session settings', async () => {
    const pooler = await startPooler(await server.createDatabase(), 'transaction');
    expect(await settingsOf(pooler.url)).toEqual(expectedSettings);
    const store = await openStore(pooler.url);
    expect(await store.directory.version()).toBe(0);
    await store.database.close();
    pooler.stop();
  });
});

test('Wallets.hold succeeds while a frozen process has the account locked', async () => {
  const url = await server.createDatabase();
  const [frozen, active] = [await openStore(url), await openStore(url)];
  const { tenantId } = await addCustomer(active);
  const moves = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const stuck = frozen.database.write.transaction().execute(async (change) => {
    await lockAccount(change, `tenant:${tenantId}`);
    locked.resolve();
    await moves.promise;
    await lockAccount(change, `tenant:${tenantId}`);
  });
  await locked.promise;
  const wallets = new Wallets(active.ledger, 'active');
  const hold = await wallets.hold(callerOf(tenantId), { requested: 10, minimum: 10 });
  expect(hold.credits).toBe(10);

  // The frozen process's transaction has been rolled back.
  moves.resolve();
  expect((await failureOf(stuck)).message).toMatch(/terminat|connection/i);
  await hold.settle(0);
  await Promise.all([frozen.database.close(), active.database.close()]);
}, 60_000);

test('listTenants finds backslashes on a server without standard_conforming_strings', async () => {
  const store = await openStore(await databaseWith('standard_conforming_strings = off'));
  await store.directory.addTenant(makeTenant({ id: 'acme', name: 'back\\slash' }));
  const found = async (search: string) =>
    (await store.directory.listTenants({ search, limit: 1, offset: 0 })).map(({ id }) => id);
  expect([await found('K\\S'), await found('\\\\')]).toEqual([['acme'], []]);
  await store.database.close();
});

describe('openPostgres and openStore reject', () => {
  test('a pooler without transactions', async () => {
    const pooler = await startPooler(server.url, 'statement');
    const { message } = await failureOf(openPostgres(pooler.url));
    expect(message).toMatch(/^Postgres at \S+ is behind a pooler in statement mode, [^.]+\.$/);
    pooler.stop();
  });

  test('a database whose encoding lacks characters', async () => {
    const url = new URL(server.url);
    url.pathname = '/western';
    const kind = "encoding 'LATIN1' locale 'C' template template0";
    await runAsOwner(server.url, `create database western ${kind}`);
    const { message } = await failureOf(openPostgres(url.href));
    expect(message).toMatch(
      /^Postgres at \S+ uses the encoding LATIN1 for this database, [^.]+\.$/,
    );
  });

  test('a role without CREATE or without access to a table', async () => {
    const url = await server.createDatabase();
    await runAsOwner(server.url, "create role reader login password 'p'");
    const theirs = new URL(url);
    theirs.username = 'reader';
    theirs.password = 'p';
    const { message } = await failureOf(openStore(theirs.href));
    expect(message).toMatch(
      /^Postgres at \S+ couldn't be migrated: [^.]+\. Grant it CREATE [^.]+\.$/,
    );

    await (await openStore(url)).database.close();
    const rights = 'select, insert, update, delete on all tables in schema public';
    await runAsOwner(url, `grant ${rights} to reader`);
    const store = await openStore(theirs.href);
    await store.directory.setAdminTokenHash(new Uint8Array(32).fill(7));
    expect(await store.directory.version()).toBe(1);
    await store.database.close();

    await runAsOwner(url, 'revoke insert, update, delete on migrations from reader');
    await (await openStore(theirs.href)).database.close();
    await runAsOwner(url, 'revoke insert on request_log from reader');
    expect((await failureOf(openStore(theirs.href))).message).toMatch(
      /^The database user can't [^.]+ table request_log\. Grant it SELECT, INSERT, [^.]+\.$/,
    );
  });

  test('a role without a schema', async () => {
    const { message } = await failureOf(openStore(await databaseWith("search_path = 'nowhere'")));
    expect(message).toMatch(/^Postgres at \S+ couldn't be migrated: [^.]+search_path/);
  });
});

test('openStore ignores tables of other programs in other schemas', async () => {
  const url = new URL(await server.createDatabase());
  await runAsOwner(
    url.href,
    'create table public.migrations (id serial, migration text, batch integer)',
    "create role lodger login password 'p'",
    'create schema lodger authorization lodger',
  );
  url.username = 'lodger';
  url.password = 'p';
  // The second startup finds the tables of the first one.
  for (let start = 1; start <= 2; start++) {
    const store = await openStore(url.href);
    expect(await store.directory.version()).toBe(0);
    await store.database.close();
  }
});

test('openWhenReachable waits for a replica to be promoted', async () => {
  const url = await databaseWith('default_transaction_read_only = on');
  const reported = Promise.withResolvers<string>();
  const opening = openWhenReachable(url, {
    waitBudgetMs: 60_000,
    onUnreachable: reported.resolve,
    stopped: new Promise(() => {}),
  });
  expect(await within(reported.promise, 'the reason why the server is unusable')).toMatch(
    /^Postgres at \S+ is read-only: [^.]+ replica[^.]+\.$/,
  );
  await runAsOwner(
    server.url,
    `alter database ${nameOf(url)} set default_transaction_read_only = off`,
  );
  const store = await opening;
  expect(await store?.directory.version()).toBe(0);
  await store?.database.close();
});

async function limitedUser() {
  await runAsOwner(server.url, "create role limited login password 'p' connection limit 2");
  const url = new URL(server.url);
  url.username = 'limited';
  url.password = 'p';
  return { url: url.href, stop: () => {} };
}

test.each([
  ['server', limitedUser],
  ['pooler', () => startPooler(server.url, 'transaction', 2)],
])('openPostgres shares few connections when the %s has no more', async (_name, start) => {
  const { url, stop } = await start();
  const database = await openPostgres(url);
  const connects = spyOn(pg.Client.prototype, 'connect');
  const slow = Array.from({ length: 40 }, () =>
    database.write.transaction().execute(async (change) => {
      await sql`select pg_sleep(0.01)`.execute(change);
      return 'done';
    }),
  );
  expect(new Set(await Promise.all(slow))).toEqual(new Set(['done']));
  expect(connects.mock.calls.length).toBeWithin(1, slow.length);
  connects.mockRestore();
  await database.close();
  stop();
});

test('openStore works with a single connection once the previous one has closed', async () => {
  const url = new URL(await server.createDatabase());
  await runAsOwner(url.href, "create role single login password 'p' connection limit 1");
  await runAsOwner(server.url, `alter database ${nameOf(url.href)} owner to single`);
  url.username = 'single';
  url.password = 'p';
  const before = new pg.Client({ connectionString: url.href });
  await before.connect();
  // It waits only after a rejection.
  const waits = spyOn(Bun, 'sleep');
  const opening = openStore(url.href);
  await waitUntil(() => waits.mock.calls.length > 0);
  waits.mockRestore();
  await before.end();
  const store = await opening;
  expect(await store.directory.version()).toBe(0);
  await store.database.close();
});

/** A certificate for localhost, created for this test only. */
const certificate = `-----BEGIN CERTIFICATE-----
MIIBlDCCATugAwIBAgIUaEgCF+OHvZU6SUCBfs55Ne4ONJwwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTE5NDE1NloYDzIxMjYxMDIy
MTk0MTU2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATB5VkGz3B4F6jOgvV9knX5fBu1epT3YykUYdYvi6yCy+rIHelhBnvv
tsyrXJnHLOMuwIzXJqlcIifCeZX9oZk6o2kwZzAdBgNVHQ4EFgQUU6njp3/J5cMT
yWZhCJXzifFOXL4wHwYDVR0jBBgwFoAUU6njp3/J5cMTyWZhCJXzifFOXL4wDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
RwAwRAIgTKNEgA8fJpu7hDNhbI9B9Cr3M3a6XXTzvC+ID+PC/N0CIA9bUDISxgjH
rwlD6/yqQ+zSjuOHqtNAR7l/5DjzYwah
-----END CERTIFICATE-----
`;

const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUy3QRviZ6xwJOZT8
1xxymbuV5sdZ+MAbrDO1rk+Org6hRANCAATB5VkGz3B4F6jOgvV9knX5fBu1epT3
YykUYdYvi6yCy+rIHelhBnvvtsyrXJnHLOMuwIzXJqlcIifCeZX9oZk6
-----END PRIVATE KEY-----
`;

describe('openPostgres with a self-signed certificate', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pg-tls-'));
  const authority = join(folder, 'authority.crt');
  const by = (host: string, query: string) => {
    const url = new URL(server.url);
    url.hostname = host;
    return `${url.href}?${query}`;
  };

  beforeAll(async () => {
    writeFileSync(authority, certificate);
    const secret = join(folder, 'server.key');
    writeFileSync(secret, key, { mode: 0o600 });
    chmodSync(folder, 0o755);
    // The server rejects a key that others can read, and runs as nobody if we are root.
    if (process.getuid?.() === 0) chownSync(secret, 65_534, 65_534);
    await runAsOwner(
      server.url,
      `alter system set ssl_cert_file = '${authority}'`,
      `alter system set ssl_key_file = '${secret}'`,
      'alter system set ssl = on',
      'select pg_reload_conf()',
    );
    await waitUntil(async () => await speaksTls(), { everyMs: 20 });
  });

  async function speaksTls(): Promise<boolean> {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    const { rows } = await client.query('show ssl');
    await client.end();
    return rows[0]?.ssl === 'on';
  }

  afterAll(() => rmSync(folder, { recursive: true }));

  test.each(['require', 'prefer', 'verify-ca', 'verify-full'])(
    'verifies the certificate with sslmode=%s, without a warning from the driver',
    async (mode) => {
      const warned = spyOn(process, 'emitWarning');
      const { message } = await failureOf(openPostgres(by('localhost', `sslmode=${mode}`)));
      expect(message).toMatch(
        /^Postgres at \S+ cannot be reached: its certificate is signed by an unknown [^.]+\. [^.]+\.$/,
      );
      expect(message).toContain('sslrootcert=<file>');
      const known = await openPostgres(by('localhost', `sslmode=${mode}&sslrootcert=${authority}`));
      const { rows } = await sql`
        select ssl from pg_stat_ssl where pid = pg_backend_pid()
      `.execute(known.read);
      expect(rows).toEqual([{ ssl: true }]);
      await known.close();
      expect(warned).not.toHaveBeenCalled();
      warned.mockRestore();
    },
  );

  test('rejects a certificate for another name', async () => {
    const query = `sslmode=verify-full&sslrootcert=${authority}`;
    const { message } = await failureOf(openPostgres(by('127.0.0.1', query)));
    expect(message).toMatch(/: its certificate is for another name\.$/);
  });

  test('accepts any certificate with sslmode=no-verify', async () => {
    await (await openPostgres(by('127.0.0.1', 'sslmode=no-verify'))).close();
  });

  test('names a missing certificate file without the password', async () => {
    const missing = 'sslmode=verify-full&sslrootcert=/nowhere/authority.crt';
    const { message } = await failureOf(openPostgres(by('localhost', missing)));
    expect(message).toMatch(/^A file that the database URL names can't be read: .+\.$/);
    expect(message).toContain('/nowhere/authority.crt');
    expect(message).not.toContain(new URL(server.url).password);
  });
});
