/** Credentials of tenants across processes, starts and secret keys. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Awake } from '../support/awake.ts';
import { type FakeUpstream, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, run, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

const testMs = 240_000;
/** The promise is a second; three processes and a database may have to wait for their turns. */
const noticedMsMax = 5_000;
const pauseMs = 5;
const body = { model: 'acme/chat', messages: [{ role: 'user', content: 'Hello!' }] };
const secret = 'one-secret-key-for-all-0123456789';

let upstream: FakeUpstream;
beforeAll(() => {
  upstream = startFakeUpstream();
});
afterAll(() => upstream.stop());

const upstreams = () => ({ vendor: { url: upstream.url, models: { 'acme/chat': {} } } });

/** The credential with which a process calls the provider now. */
async function usedBy(gateway: Gateway): Promise<string> {
  const { status, text } = await gateway.chat(body);
  if (status !== 200) throw new Error(`${status} ${text}`);
  return upstream.book.at(-1)?.headers.authorization ?? 'none';
}

test(
  'a credential that is saved or deleted is in force everywhere a second later',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const env = { DATABASE_URL, TOLLGATE_SECRET_KEY: secret };
    await using here = await startGateway({ env, upstreams: upstreams() });
    await using there = await here.another();
    for (const gateway of [here, there]) expect(await usedBy(gateway)).toContain('sk-upstream');
    const expectSoon = async (key: string) => {
      using awake = new Awake();
      while (!(await usedBy(there)).endsWith(key)) await Bun.sleep(pauseMs);
      expect(awake.ms).toBeLessThan(noticedMsMax);
      // The process that made the change does not even wait for its next look.
      expect(await usedBy(here)).toEndWith(key);
    };
    await here.manage('PUT', '/api/v1/byok/vendor', { api_key: 'sk-own-0123456789' });
    expect(await usedBy(here)).toBe('Bearer sk-own-0123456789');
    await expectSoon('sk-own-0123456789');
    await here.manage('DELETE', '/api/v1/byok/vendor');
    expect(await usedBy(here)).toContain('sk-upstream');
    await expectSoon('sk-upstream-test-key');
  },
  testMs,
);

test(
  'the secret key is replaced while processes run, and nobody notices',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const own = 'Bearer sk-own-0123456789';
    const next = 'the-next-secret-key-for-all-0123456789';
    const both = { TOLLGATE_SECRET_KEY: next, TOLLGATE_PREVIOUS_SECRET_KEY: secret };
    const env = { DATABASE_URL, TOLLGATE_SECRET_KEY: secret };
    const old = await startGateway({ env, upstreams: upstreams() });
    await old.manage('PUT', '/api/v1/byok/vendor', { api_key: 'sk-own-0123456789' });
    const rest = { upstreams: upstreams(), keys: old.keys };
    await using here = await startGateway({ ...rest, env: { DATABASE_URL, ...both } });
    for (const gateway of [old, here]) expect(await usedBy(gateway)).toBe(own);
    // Processes with one key and with both run side by side until the rotation.
    await here.manage('PUT', '/api/v1/byok/vendor', { api_key: 'sk-new-0123456789' });
    using awake = new Awake();
    while ((await usedBy(old)) === own) await Bun.sleep(pauseMs);
    expect(awake.ms).toBeLessThan(noticedMsMax);
    expect(await usedBy(old)).toBe('Bearer sk-new-0123456789');
    await old.stop();

    const rotated = await here.command('secret', 'rotate');
    expect(rotated.stdout).toContain(': 1 encrypted anew, 0 already before, 0 that cannot');
    expect(await usedBy(here)).toBe('Bearer sk-new-0123456789');
    const alone = { DATABASE_URL, TOLLGATE_SECRET_KEY: next };
    await using there = await startGateway({ ...rest, env: alone });
    expect(await usedBy(there)).toBe('Bearer sk-new-0123456789');
    const refused = await run(['serve', '--port', '0'], { ...rest, env });
    expect([refused.exitCode, refused.stdout]).toEqual([1, '']);
    expect(refused.stderr).toStartWith("The secret key doesn't match");
  },
  testMs,
);

test(
  'a start with another secret key is refused while credentials need the first',
  async () => {
    const gateway = await startGateway({ upstreams: upstreams() });
    const set = await gateway.command('byok', 'set', 'vendor', '--api-key', 'sk-own-0123456789');
    expect(set.stdout).toBe('The key •••6789 is kept for vendor (byok_first).\n');
    await gateway.stop();
    const again = { upstreams: upstreams(), dataDir: gateway.dataDir };
    const env = { TOLLGATE_SECRET_KEY: secret };

    const refused = await run(['serve', '--port', '0'], { ...again, env });
    expect(refused.exitCode).toBe(1);
    expect(refused.stdout).toBe('');
    expect(refused.stderr).toMatch(/^The secret key doesn't match [^\n]*byok delete"\.\n$/);

    await using back = await startGateway({ ...again, keys: gateway.keys });
    expect(await usedBy(back)).toBe('Bearer sk-own-0123456789');

    const deleted = await run(['byok', 'delete', 'vendor'], { ...again, env });
    expect(deleted.stdout).toBe('The key for vendor was deleted.\n');
    await using other = await startGateway({ ...again, env, keys: gateway.keys });
    expect(await usedBy(other)).toContain('sk-upstream');
  },
  testMs,
);

test(
  'a command that lacks the secret key in use is refused, and makes no other',
  async () => {
    const env = { TOLLGATE_SECRET_KEY: secret };
    await using gateway = await startGateway({ upstreams: upstreams(), env });
    const { dataDir } = gateway;
    const words = ['byok', 'set', 'vendor', '--api-key', 'sk-own-0123456789'];
    const bare = { upstreams: upstreams(), dataDir, env: { TOLLGATE_SECRET_KEY: '' } };
    const wrongFormer = { ...bare.env, TOLLGATE_PREVIOUS_SECRET_KEY: `not ${secret}` };
    for (const other of [bare.env, wrongFormer]) {
      const refused = await run(words, { ...bare, env: other });
      expect(refused.stderr).toStartWith("The secret key doesn't match");
    }
    // While the key is replaced, the former one is in use, and perhaps no start has made another.
    const former = { ...bare.env, TOLLGATE_PREVIOUS_SECRET_KEY: secret };
    for (const known of [env, former]) {
      const taken = await run(words, { ...bare, env: known });
      expect(taken.stdout).toBe('The key •••6789 is kept for vendor (byok_first).\n');
    }
    expect(existsSync(join(dataDir, 'secret.key'))).toBe(false);
  },
  testMs,
);
