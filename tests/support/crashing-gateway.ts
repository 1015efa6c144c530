/**
 * Starts gateways that are killed right after the store saved the answer to an idempotency key and
 * before the gateway receives the store's confirmation.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { newFolder } from './gateway/cleanup-shell.ts';
import { type Gateway, type GatewayOptions, startGateway } from './gateway.ts';
import { startTcpProxy } from './tcp-proxy.ts';

const savedAnswerQuery = 'select 1 from idempotency_claims where is_done = 1';

/**
 * Starts a gateway that checks before each message from the database thread whether the answer was
 * saved. If so, the gateway kills itself.
 */
export async function startCrashingOnSqlite(options: GatewayOptions): Promise<Gateway> {
  const [folder, dataDir] = [newFolder(), newFolder()];
  const script = join(folder, 'preload.js');
  writeFileSync(script, preloadScript(join(dataDir, 'tollgate.db')));
  const env = { ...options.env, BUN_OPTIONS: `--preload ${script}` };
  return startGateway({ ...options, dataDir, env });
}

/** Preloaded before the gateway's code, so that its listener receives each message first. */
function preloadScript(path: string): string {
  return `
    import { Database } from 'bun:sqlite';
    const OriginalWorker = globalThis.Worker;
    let file;
    globalThis.Worker = class extends OriginalWorker {
      constructor(...args) {
        super(...args);
        this.addEventListener('message', () => {
          try {
            file ??= new Database(${JSON.stringify(path)}, { readonly: true });
            const saved = file.query(${JSON.stringify(savedAnswerQuery)}).get();
            if (saved) process.kill(process.pid, 'SIGKILL');
          } catch {
            // The table doesn't exist yet.
          }
        });
      }
    };`;
}

/** Once the answer is saved, drops all messages from the server and kills the gateway. */
export async function startCrashingOnPostgres(
  options: GatewayOptions,
  url: string,
): Promise<Gateway> {
  // A pool, because several connections of the gateway may check at the same time.
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const proxy = await startCuttingProxy(url, async () => {
    const { rows } = await pool.query(savedAnswerQuery).catch(() => ({ rows: [] }));
    return rows.length > 0;
  });
  const env = { ...options.env, DATABASE_URL: proxy.url };
  const gateway = await startGateway({ ...options, env });
  void proxy.cut.then(() => gateway.kill9());
  void gateway.finished.then(async () => {
    proxy.stop();
    await pool.end();
  });
  return gateway;
}

/** Starts a proxy that drops messages from the server once `mustCut` returns true. */
async function startCuttingProxy(url: string, mustCut: () => Promise<boolean>) {
  const cut = Promise.withResolvers<void>();
  const proxy = await startTcpProxy(url, (client, connectToServer) => {
    const server = connectToServer();
    client.pipe(server);
    let forwarded = Promise.resolve();
    server.on('data', (bytes: Buffer) => {
      forwarded = forwarded.then(async () => {
        if (await mustCut()) cut.resolve();
        else client.write(bytes);
      });
    });
  });
  return { ...proxy, cut: cut.promise };
}
