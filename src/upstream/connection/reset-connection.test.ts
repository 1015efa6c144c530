import { expect, test } from 'bun:test';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { ConnectionPool } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

/** Answers on each connection with its number, and signals when it has closed the first one. */
const server = `
  const { createServer } = require('node:net');
  const { parentPort, workerData } = require('node:worker_threads');
  let opened = 0;
  const listening = createServer((socket) => {
    const number = ++opened;
    socket.on('error', () => {});
    socket.on('data', () => {
      socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\n' + number);
      if (number > 1) return;
      setImmediate(() => {
        socket[workerData.close]();
        Atomics.store(workerData.isClosed, 0, 1);
        Atomics.notify(workerData.isClosed, 0);
      });
    });
  });
  listening.listen(0, '127.0.0.1', () => parentPort.postMessage(listening.address().port));
`;

test.each([
  ['did not accept', 'resetAndDestroy', 60_000],
  ['was found closed before it was written', 'resetAndDestroy', 0],
  ['was found closed before it was written', 'destroy', 0],
])('ConnectionPool sends a request that a closed connection %s (%s)', async (_, close, idleMs) => {
  const isClosed = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(server, { eval: true, workerData: { isClosed, close } });
  const [port] = await once(worker, 'message');
  const connections = new ConnectionPool({ hostname: '127.0.0.1', port, isSecure: false }, idleMs);
  const post = async () => {
    const request = { start: formatRequestHead('/v1', 'host: here\r\n', 0), rest: undefined };
    const trip = new RoundTrip(request);
    connections.start(trip);
    return (await trip.response).text();
  };
  const first = await post();
  // Blocks this thread, so the next request is started before the close is noticed.
  Atomics.wait(isClosed, 0, 0);
  expect([first, await post()]).toEqual(['1', '2']);
  await worker.terminate();
});
