import { expect, test } from 'bun:test';
import { connect } from 'node:net';
import { Authenticator } from '../../auth/authenticate.ts';
import { createLog } from '../../telemetry/log.ts';
import { Exchange } from '../routes.ts';
import { HttpServer } from '../server.ts';
import { csvReply } from './csv.ts';

const exchange = new Exchange(new Request('http://gateway/'));
const piecesEach = 20;

test('downloads take turns, and others get theirs between any two pieces', async () => {
  let making = 0;
  let makingMax = 0;
  let turn = 0;
  const turns: number[] = [];
  // Always ready to go on, as a store is that another thread reads.
  async function* pieces(name: string): AsyncGenerator<string> {
    for (let i = 0; i < piecesEach; i++) {
      makingMax = Math.max(makingMax, ++making);
      await Promise.resolve();
      making -= 1;
      turns.push(turn);
      yield `${name}${i}\r\n`;
    }
  }
  let goesOn = true;
  const count = () => {
    turn += 1;
    if (goesOn) setImmediate(count);
  };
  setImmediate(count);
  const texts = await Promise.all(
    ['a', 'b', 'c'].map(async (name) => (await csvReply(exchange, 'x.csv', pieces(name))).text()),
  );
  goesOn = false;
  const whole = (name: string) =>
    Array.from({ length: piecesEach }, (_, i) => `${name}${i}\r\n`).join('');
  expect(texts).toEqual(['a', 'b', 'c'].map(whole));
  expect(makingMax).toBe(1);
  expect(new Set(turns).size).toBe(3 * piecesEach);
});

test('a reader who stops taking keeps nobody else waiting', async () => {
  const rowsEach = 200;
  const row = `${'x'.repeat(64 * 1024)}\r\n`;
  const made = { stalled: 0, other: 0 };
  async function* pieces(whose: keyof typeof made): AsyncGenerator<string> {
    for (let i = 0; i < rowsEach; i++) {
      made[whose] += 1;
      yield row;
    }
  }
  using server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => csvReply(exchange, 'x.csv', pieces('stalled')),
  });
  const stalled = connect(server.port ?? 0, '127.0.0.1');
  stalled.pause();
  stalled.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  // Until it has filled the buffers between the two and stalls.
  for (let before = 0; before !== made.stalled || before === 0; await Bun.sleep(100)) {
    before = made.stalled;
  }
  const text = await (await csvReply(exchange, 'x.csv', pieces('other'))).text();
  expect(text.length).toBe(rowsEach * row.length);
  expect(made.other).toBe(rowsEach);
  expect(made.stalled).toBeLessThan(rowsEach);
  stalled.destroy();
});

test('a download that fails cuts its own connection and nobody else’s', async () => {
  async function* failing(): AsyncGenerator<string> {
    yield 'one\r\n';
    throw new Error('the store went away');
  }
  async function* good(): AsyncGenerator<string> {
    yield 'one\r\n';
    yield 'two\r\n';
  }
  const { body: torn } = await csvReply(exchange, 'x.csv', failing());
  const whole = (await csvReply(exchange, 'x.csv', good())).text();
  const failure = await Array.fromAsync(torn ?? []).catch((error: unknown) => error);
  // The runtime prints whatever a body fails with, over several lines, between those of the log.
  expect(failure).toBeNull();
  expect(await whole).toBe('one\r\ntwo\r\n');
});

test('a download that fails is told in the log, by its request id', async () => {
  async function* failing(): AsyncGenerator<string> {
    yield 'one\r\n';
    throw new Error('the rest is lost');
  }
  const lines: string[] = [];
  const nobody = async () => undefined;
  const server = new HttpServer({
    routes: [
      {
        method: 'GET',
        path: '/torn',
        access: 'public',
        handle: (asked) => csvReply(asked, 'x.csv', failing()),
      },
    ],
    authenticator: new Authenticator({ findKey: nobody, adminTokenHash: nobody, markUsed: nobody }),
    log: createLog((line) => lines.push(line)),
  });
  const client = connect(server.listen('127.0.0.1', 0), '127.0.0.1');
  let heard = '';
  client.on('data', (bytes) => {
    heard += bytes;
  });
  client.on('error', () => undefined);
  client.write('GET /torn HTTP/1.1\r\nHost: gateway\r\n\r\n');
  await new Promise((resolve) => client.on('close', resolve));
  await server.drain(1);
  expect(heard).toStartWith('HTTP/1.1 200 ');
  // A whole body in chunks would end with an empty chunk.
  expect(heard).not.toEndWith('0\r\n\r\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({
      level: 'error',
      event: 'request_failed',
      request_id: /x-request-id: (\S+)/i.exec(heard)?.[1],
      path: '/torn',
      reason: 'the rest is lost',
    }),
  ]);
});

test('a reader who leaves ends what was being read', async () => {
  let ended = false;
  async function* pieces(): AsyncGenerator<string> {
    try {
      for (;;) yield 'more\r\n';
    } finally {
      ended = true;
    }
  }
  const { body } = await csvReply(exchange, 'x.csv', pieces());
  const reader = body?.getReader();
  await reader?.read();
  await reader?.cancel();
  expect(ended).toBe(true);
});
