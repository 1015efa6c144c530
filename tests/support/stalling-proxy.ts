/**
 * A proxy that stops forwarding in the middle of the client's first long message, as if the client
 * had stalled. The connection stays open.
 */
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

interface StallingProxy extends TcpProxy {
  readonly stalled: Promise<void>;
}

/** All other messages of clients are less than half as long. */
const longBytes = 1_000_000;

export async function startStallingProxy(url: string): Promise<StallingProxy> {
  const stalled = Promise.withResolvers<void>();
  const proxy = await startTcpProxy(url, (client, connectToServer) => {
    const server = connectToServer();
    let unanswered = 0;
    server.on('data', (bytes) => {
      unanswered = 0;
      client.write(bytes);
    });
    client.on('data', (bytes) => {
      unanswered += bytes.length;
      if (unanswered < longBytes) server.write(bytes);
      else stalled.resolve();
    });
  });
  return { ...proxy, stalled: stalled.promise };
}
