/**
 * Stands between a client and its Postgres, and stops passing words on in the middle of the first
 * long message, as a client does that freezes: its connection stays open.
 */
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

interface StallingProxy extends TcpProxy {
  readonly stalled: Promise<void>;
}

/** No other message of a client is as long as half of this. */
const longBytes = 1_000_000;

export async function startStallingProxy(url: string): Promise<StallingProxy> {
  const frozen = Promise.withResolvers<void>();
  const line = await startTcpProxy(url, (client, reach) => {
    const behind = reach();
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
  return { ...line, stalled: frozen.promise };
}
