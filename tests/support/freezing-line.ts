/**
 * Stands between a client and its Postgres, and stops passing words on in the middle of the first
 * long message, as a client does that freezes: its connection stays open.
 */
import { connect, createServer, type Socket } from 'node:net';

interface FreezingLine {
  /** The address of the same database by way of this line. */
  readonly url: string;
  readonly isFrozen: Promise<void>;
  /** Hangs up. */
  stop(): void;
}

/** No other message of a client is as long as half of this. */
const longBytes = 1_000_000;

export async function startFreezingLine(url: string): Promise<FreezingLine> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const frozen = Promise.withResolvers<void>();
  const server = createServer((client) => {
    const behind = connect(Number(port), hostname);
    for (const socket of [client, behind]) sockets.add(socket.on('error', () => {}));
    behind.on('close', () => client.destroy());
    client.on('close', () => behind.destroy());
    let unanswered = 0;
    behind.on('data', (bytes) => {
      unanswered = 0;
      client.write(bytes);
    });
    client.on('data', (bytes) => {
      unanswered += bytes.length;
      if (unanswered < longBytes) behind.write(bytes);
      else frozen.resolve();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const through = new URL(url);
  through.port = typeof address === 'object' && address ? String(address.port) : '';
  return {
    url: through.href,
    isFrozen: frozen.promise,
    stop: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
