/**
 * Plays a connection pooler in front of Postgres: it refuses what PgBouncer refuses, with the same
 * messages, and passes everything else on unchanged.
 */
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

/** The startup parameters that PgBouncer accepts; it hangs up on clients that send others. */
const taken = new Set(['user', 'database', 'client_encoding', 'application_name']);

export function startPooler(
  url: string,
  mode: 'transaction' | 'statement',
  clientsMax = Number.POSITIVE_INFINITY,
): Promise<TcpProxy> {
  let clients = 0;
  return startTcpProxy(url, (client, reach) => {
    client.once('data', (startup: Buffer) => {
      const refused = settingsIn(startup).find((name) => !taken.has(name));
      if (refused !== undefined) {
        client.end(refusal(`unsupported startup parameter: ${refused}`));
        return;
      }
      if (clients >= clientsMax) {
        client.end(refusal('no more connections allowed (max_client_conn)'));
        return;
      }
      clients += 1;
      client.on('close', () => {
        clients -= 1;
      });
      const behind = reach();
      behind.write(startup);
      behind.pipe(client);
      client.on('data', (bytes: Buffer) => {
        if (mode === 'statement' && isBeginning(bytes)) {
          client.end(refusal('transaction blocks not allowed in statement pooling mode'));
        } else {
          behind.write(bytes);
        }
      });
    });
  });
}

/** The names in `name\0value\0…`, which follows the length and the version. */
function settingsIn(startup: Buffer): string[] {
  const words = startup.subarray(8).toString('latin1').split('\0');
  return words.filter((word, at) => at % 2 === 0 && word !== '');
}

function isBeginning(bytes: Buffer): boolean {
  return /^Q....begin/is.test(bytes.toString('latin1'));
}

function refusal(message: string): Buffer {
  const body = Buffer.from(`SFATAL\0VFATAL\0C08P01\0M${message}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
