// A client that exposes the received bytes and how the connection ended. Fetch hides both.
import { within } from '../wait-until.ts';

interface RawReply {
  /** The bytes of each read, as they arrived. */
  readonly reads: readonly Buffer[];
  readonly bytes: Buffer;
  readonly text: string;
  readonly ended: 'closed' | 'reset';
}

interface RawConnection {
  send(text: string): void;
  /** Resolves when the received bytes contain `text`. */
  received(text: string): Promise<void>;
  /** Resolves when the server has closed or reset the connection. */
  finished(): Promise<RawReply>;
  disconnect(): void;
}

export function postText(path: string, body: unknown, headers = ''): string {
  const json = JSON.stringify(body);
  const length = Buffer.byteLength(json);
  const head = `POST ${path} HTTP/1.1\r\nhost: fake\r\ncontent-type: application/json\r\n`;
  return `${head}${headers}content-length: ${length}\r\n\r\n${json}`;
}

export async function connectRaw(port: number): Promise<RawConnection> {
  const reads: Buffer[] = [];
  const finished = Promise.withResolvers<RawReply>();
  const watchers = new Set<() => void>();
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data(_socket, bytes) {
        reads.push(bytes);
        for (const look of [...watchers]) look();
      },
      close(_socket, error) {
        const bytes = Buffer.concat(reads);
        const ended = error === undefined ? 'closed' : 'reset';
        finished.resolve({ reads, bytes, text: bytes.toString(), ended });
      },
    },
  });
  return {
    send(text) {
      socket.write(text);
    },
    received(text) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const look = () => {
        if (!Buffer.concat(reads).includes(text)) return;
        watchers.delete(look);
        resolve();
      };
      watchers.add(look);
      look();
      return within(promise, `${text} from the server`);
    },
    finished: () => within(finished.promise, 'the end of a raw connection', 60_000),
    disconnect() {
      socket.end();
    },
  };
}

/** Sends one request on its own connection and reads until the server closes it. */
export async function rawPost(
  upstream: { readonly port: number },
  body: unknown,
  path = '/v1/chat/completions',
): Promise<RawReply> {
  const connection = await connectRaw(upstream.port);
  connection.send(postText(path, body, 'connection: close\r\n'));
  return connection.finished();
}
