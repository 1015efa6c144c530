/** Stands between clients and a server, such as Postgres, and decides what is passed on. */
import { connect, createServer, type Socket } from 'node:net';

export interface TcpProxy {
  /** The address of the same server, or database, by way of this place. */
  readonly url: string;
  /** Hangs up on both sides. */
  stop(): void;
}

/** `reach` opens the connection to the server; either end takes the other along when it closes. */
export async function startTcpProxy(
  url: string,
  serve: (client: Socket, reach: () => Socket) => void,
): Promise<TcpProxy> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => sockets.add(socket.on('error', () => {}));
  const server = createServer((client) => {
    keep(client);
    serve(client, () => {
      const behind = connect(Number(port), hostname);
      keep(behind);
      behind.on('close', () => client.destroy());
      client.on('close', () => behind.destroy());
      return behind;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const through = new URL(url);
  through.port = typeof address === 'object' && address ? String(address.port) : '';
  return {
    url: through.href,
    stop: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
