/** A TCP proxy between clients and a server, such as Postgres, that decides what it forwards. */
import { connect, createServer, type Socket } from 'node:net';

export interface TcpProxy {
  /** The server's URL with the proxy's port. */
  readonly url: string;
  /** Closes all connections on both sides. */
  stop(): void;
}

/**
 * `serve` handles one client. `connectToServer` opens the client's connection to the server. When
 * either side closes, the other is closed as well.
 */
export async function startTcpProxy(
  url: string,
  serve: (client: Socket, connectToServer: () => Socket) => void,
): Promise<TcpProxy> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => sockets.add(socket.on('error', () => {}));
  const server = createServer((client) => {
    track(client);
    serve(client, () => {
      const upstream = connect(Number(port), hostname);
      track(upstream);
      upstream.on('close', () => client.destroy());
      client.on('close', () => upstream.destroy());
      return upstream;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const proxied = new URL(url);
  proxied.port = typeof address === 'object' && address ? String(address.port) : '';
  return {
    url: proxied.href,
    stop: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
