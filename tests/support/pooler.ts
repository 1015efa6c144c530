/**
 * A fake connection pooler in front of Postgres. It rejects what PgBouncer rejects, with the same
 * messages, and forwards everything else unchanged.
 */
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

/** The startup parameters that PgBouncer accepts. It disconnects clients that send others. */
const accepted = new Set(['user', 'database', 'client_encoding', 'application_name']);

export function startPooler(
  url: string,
  mode: 'transaction' | 'statement',
  clientsMax = Number.POSITIVE_INFINITY,
): Promise<TcpProxy> {
  let clients = 0;
  return startTcpProxy(url, (client, connectToServer) => {
    client.once('data', (startup: Buffer) => {
      const rejected = settingsIn(startup).find((name) => !accepted.has(name));
      if (rejected !== undefined) {
        client.end(fatalError(`unsupported startup parameter: ${rejected}`));
        return;
      }
      if (clients >= clientsMax) {
        client.end(fatalError('no more connections allowed (max_client_conn)'));
        return;
      }
      clients += 1;
      client.on('close', () => {
        clients -= 1;
      });
      const server = connectToServer();
      server.write(startup);
      server.pipe(client);
      client.on('data', (bytes: Buffer) => {
        if (mode === 'statement' && isBegin(bytes)) {
          client.end(fatalError('transaction blocks not allowed in statement pooling mode'));
        } else {
          server.write(bytes);
        }
      });
    });
  });
}

/** Returns the parameter names in `name\0value\0…`, which follows the length and version. */
function settingsIn(startup: Buffer): string[] {
  const strings = startup.subarray(8).toString('latin1').split('\0');
  return strings.filter((name, index) => index % 2 === 0 && name !== '');
}

function isBegin(bytes: Buffer): boolean {
  return /^Q....begin/is.test(bytes.toString('latin1'));
}

function fatalError(message: string): Buffer {
  const body = Buffer.from(`SFATAL\0VFATAL\0C08P01\0M${message}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
