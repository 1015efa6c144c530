import { describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { connect } from 'node:net';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { Authenticator } from '../../auth/authenticate.ts';
import { createLog } from '../../telemetry/log.ts';
import { Exchange } from '../routes.ts';
import { HttpServer } from '../server.ts';
import { csvReply } from './csv.ts';

const exchange = new Exchange(new Request('http://gateway/'));
const chunksPerFile = 20;

describe('csvReply', () => {
  test('reads one chunk at a time across downloads and yields to other requests', async () => {
    let running = 0;
    let runningMax = 0;
    let turn = 0;
    const turns: number[] = [];
    // Always has the next chunk ready, like a store that another thread reads.
    async function* chunks(name: string): AsyncGenerator<string> {
      for (let i = 0; i < chunksPerFile; i++) {
        runningMax = Math.max(runningMax, ++running);
        await Promise.resolve();
        running -= 1;
        turns.push(turn);
        yield `${name}${i}\r\n`;
      }
    }
    let isCounting = true;
    const count = () => {
      turn += 1;
      if (isCounting) setImmediate(count);
    };
    setImmediate(count);
    const texts = await Promise.all(
      ['a', 'b', 'c'].map(async (name) => (await csvReply(exchange, 'x.csv', chunks(name))).text()),
    );
    isCounting = false;
    const fullFile = (name: string) =>
      Array.from({ length: chunksPerFile }, (_, i) => `${name}${i}\r\n`).join('');
    expect(texts).toEqual(['a', 'b', 'c'].map(fullFile));
    expect(runningMax).toBe(1);
    expect(new Set(turns).size).toBe(3 * chunksPerFile);
  });

  test('does not delay other downloads when one client stops reading', async () => {
    const rowsEach = 200;
    const row = `${'x'.repeat(64 * 1024)}\r\n`;
    const produced = { stalled: 0, other: 0 };
    async function* chunks(download: keyof typeof produced): AsyncGenerator<string> {
      for (let i = 0; i < rowsEach; i++) {
        produced[download] += 1;
        yield row;
      }
    }
    using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => csvReply(exchange, 'x.csv', chunks('stalled')),
    });
    const stalled = connect(server.port ?? 0, '127.0.0.1');
    stalled.pause();
    stalled.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    // Wait until the download has filled the socket buffers and stalls.
    for (let before = 0; before !== produced.stalled || before === 0; await Bun.sleep(100)) {
      before = produced.stalled;
    }
    const text = await (await csvReply(exchange, 'x.csv', chunks('other'))).text();
    expect(text.length).toBe(rowsEach * row.length);
    expect(produced.other).toBe(rowsEach);
    expect(produced.stalled).toBeLessThan(rowsEach);
    stalled.destroy();
  });

  test('logs a failed download with its request ID', async () => {
    async function* failing(): AsyncGenerator<string> {
      yield 'one\r\n';
      throw new Error('The store is unreachable.');
    }
    const { server, client, lines } = startDownload(failing());
    let received = '';
    client.on('data', (bytes) => {
      received += bytes;
    });
    // The bytes of a failed download arrive, and then the end of the connection instead of a reset.
    await once(client, 'end');
    await server.drain(1);
    expect(received).toStartWith('HTTP/1.1 200 ');
    expect(received).toContain('one\r\n');
    // A complete chunked body would end with an empty chunk.
    expect(received).not.toEndWith('0\r\n\r\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({
        level: 'error',
        event: 'request_failed',
        request_id: /x-request-id: (\S+)/i.exec(received)?.[1],
        path: '/file',
        reason: 'The store is unreachable.',
      }),
    ]);
  });

  test('stops reading when the client disconnects', async () => {
    let ended = false;
    async function* chunks(): AsyncGenerator<string> {
      try {
        for (;;) yield 'more\r\n';
      } finally {
        ended = true;
      }
    }
    const { server, client } = startDownload(chunks());
    await once(client, 'data');
    client.destroy();
    await waitUntil(() => ended && server.openRequests === 0, { withinMs: 5_000 });
    await server.drain(1);
  });
});

/** Downloads a file from a real server. */
function startDownload(chunks: AsyncGenerator<string>) {
  const lines: string[] = [];
  const notFound = async () => undefined;
  const server = new HttpServer({
    routes: [
      {
        method: 'GET',
        path: '/file',
        access: 'public',
        handle: (download) => csvReply(download, 'x.csv', chunks),
      },
    ],
    authenticator: new Authenticator({
      findKey: notFound,
      adminTokenHash: notFound,
      markUsed: notFound,
      purgeUnusedKeys: notFound,
    }),
    log: createLog((line) => lines.push(line)),
  });
  const client = connect(server.listen('127.0.0.1', 0), '127.0.0.1');
  client.on('error', () => undefined);
  client.write('GET /file HTTP/1.1\r\nHost: gateway\r\n\r\n');
  return { server, client, lines };
}
