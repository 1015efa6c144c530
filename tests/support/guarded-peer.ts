/**
 * Servers for tests of GuardedFetch. Tests can use only loopback addresses. The injected policy
 * allows 127.0.0.2, which stands for the public internet. 127.0.0.1 stands for a private network.
 */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import {
  createGuardedFetch,
  type GuardedFetch,
  type GuardedResult,
} from '../../src/upstream/guard/guarded-fetch.ts';
import type { ResolveHost } from '../../src/upstream/guard/host-names.ts';
import { within } from './wait-until.ts';

export const outside = '127.0.0.2';
export const inside = '127.0.0.1';
export const bounds = { tenantId: 'acme', bodyBytesMax: 1000, timeoutMs: 20_000 };

export type Answer = (socket: Socket) => void;

export interface Peer {
  readonly port: number;
  /** The head and body of each request as received. */
  readonly requests: string[];
  readonly closed: Promise<void>;
}

let servers: Server[] = [];

export function closePeers(): void {
  for (const server of servers) server.close();
  servers = [];
}

export async function listen(ip: string, answer: Answer, port = 0): Promise<Peer> {
  const requests: string[] = [];
  const closed = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('close', () => closed.resolve());
    let received = '';
    const onData = (data: Buffer) => {
      received += data.toString();
      if (!isComplete(received)) return;
      socket.off('data', onData);
      requests.push(received);
      answer(socket);
    };
    socket.on('data', onData);
  });
  servers.push(server);
  server.listen(port, ip);
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The server has no port.');
  return {
    port: address.port,
    requests,
    get closed() {
      return within(closed.promise, `a connection to ${ip} to close`);
    },
  };
}

/** Returns whether a request has arrived with its body, which can follow its head separately. */
function isComplete(request: string): boolean {
  const bodyAt = request.indexOf('\r\n\r\n') + 4;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(request)?.[1] ?? 0);
  return bodyAt > 3 && request.length - bodyAt >= length;
}

export function text(body: string, head = ''): Answer {
  return (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`);
}

export function redirect(location: string, status = 302): Answer {
  return (socket) =>
    socket.end(`HTTP/1.1 ${status} Go\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`);
}

export function guarded(resolve: ResolveHost = async () => [outside]): GuardedFetch {
  return createGuardedFetch({ resolve, isAllowedAddress: (ip) => ip === outside });
}

export function reasonOf(result: GuardedResult): string {
  return result.ok ? `answered ${result.status}` : result.reason;
}
