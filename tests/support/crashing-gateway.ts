/**
 * A gateway that dies at one exact moment: its store has just saved the answer of an idempotency
 * key, but the gateway has not heard of it. Whatever it would do next never happens.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { newFolder } from './gateway/cleanup-shell.ts';
import { type Gateway, type GatewayOptions, startGateway } from './gateway.ts';
import { startTcpProxy } from './tcp-proxy.ts';

const answered = 'select 1 from idempotency_claims where is_done = 1';

/**
 * On SQLite: before each message from the database thread it checks whether the answer is saved,
 * and kills itself if so.
 */
export async function startCrashingOnSqlite(options: GatewayOptions): Promise<Gateway> {
  const [folder, dataDir] = [newFolder(), newFolder()];
  const early = join(folder, 'early.js');
  writeFileSync(early, listener(join(dataDir, 'tollgate.db')));
  const env = { ...options.env, BUN_OPTIONS: `--preload ${early}` };
  return startGateway({ ...options, dataDir, env });
}

/** Preloaded before the gateway's code, so that its listener hears each message first. */
function listener(path: string): string {
  return `
    import { Database } from 'bun:sqlite';
    const Plain = globalThis.Worker;
    let file;
    globalThis.Worker = class extends Plain {
      constructor(...words) {
        super(...words);
        this.addEventListener('message', () => {
          try {
            file ??= new Database(${JSON.stringify(path)}, { readonly: true });
            if (file.query(${JSON.stringify(answered)}).get()) process.kill(process.pid, 'SIGKILL');
          } catch {
            // There is no such table yet.
          }
        });
      }
    };`;
}

/**
 * On Postgres: once the answer is saved, the gateway hears nothing more from the server and is
 * killed.
 */
export async function startCrashingOnPostgres(
  options: GatewayOptions,
  url: string,
): Promise<Gateway> {
  const looker = new pg.Client({ connectionString: url });
  await looker.connect();
  const wire = await startWire(url, async () => {
    const { rows } = await looker.query(answered).catch(() => ({ rows: [] }));
    return rows.length > 0;
  });
  const env = { ...options.env, DATABASE_URL: wire.url };
  const gateway = await startGateway({ ...options, env });
  void wire.cut.then(() => gateway.kill9());
  void gateway.finished.then(async () => {
    wire.stop();
    await looker.end();
  });
  return gateway;
}

/**
 * A proxy that passes everything on, but asks before each message of the server whether to stop.
 */
async function startWire(url: string, isOver: () => Promise<boolean>) {
  const cut = Promise.withResolvers<void>();
  const wire = await startTcpProxy(url, (client, reach) => {
    const behind = reach();
    client.pipe(behind);
    let told = Promise.resolve();
    behind.on('data', (words: Buffer) => {
      told = told.then(async () => {
        if (await isOver()) cut.resolve();
        else client.write(words);
      });
    });
  });
  return { ...wire, cut: cut.promise };
}
