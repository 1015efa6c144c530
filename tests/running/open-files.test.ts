/** A gateway that has as many files and connections open as its system allows. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';

const upstream = startFakeUpstream();
const earlier = startFakeUpstream();
afterAll(() => Promise.all([upstream.stop(), earlier.stop()]));
beforeEach(() => upstream.reset());

/** Enough for a start and a few clients. */
const openFilesMax = 100;

function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

async function keepOpen(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** The first answer on a connection that is open already. */
async function askOn(socket: Socket, key: string, body: object): Promise<string> {
  const text = JSON.stringify(body);
  const heads = ['POST /v1/chat/completions HTTP/1.1', 'Host: gateway', `x-api-key: ${key}`];
  heads.push('Content-Type: application/json', `Content-Length: ${text.length}`);
  socket.write(`${heads.join('\r\n')}\r\n\r\n${text}`);
  return new Promise((resolve) => socket.once('data', (bytes) => resolve(bytes.toString())));
}

const journal = "The gateway can't write its journal. Try again shortly.";
const crowded = 'This gateway has too many open connections. Try again shortly.';

test.each([
  ['at its first request', [], journal],
  ['later', ['test/before'], crowded],
] as const)(
  'with no place for another file %s it says so, blames no provider and recovers',
  async (_, before, message) => {
    const models = { 'test/chat': {} };
    await using gateway = await startGateway({
      upstreams: {
        warm: { url: earlier.url, models: { 'test/before': {} } },
        fake: { url: upstream.url, models },
        other: { url: upstream.url, models },
      },
      openFilesMax,
    });
    const asking = (model: string) => ({ model, messages: [{ role: 'user', content: 'Hello.' }] });
    const ask = asking('test/chat');
    const { api } = gateway.keys;
    for (const model of before) expect((await gateway.chat(asking(model))).status).toBe(200);
    const first = await keepOpen(gateway.url);
    first.write('GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n');
    await new Promise((resolve) => first.once('data', resolve));
    // The system takes connections that the gateway has no place for, and lets them wait.
    const crowd = await Promise.all(
      Array.from({ length: openFilesMax }, () => keepOpen(gateway.url)),
    );
    while (openFiles(gateway.process.pid) < openFilesMax) await Bun.sleep(10);

    const refused = await askOn(first, api, ask);
    expect(refused).toStartWith('HTTP/1.1 503');
    expect(refused.toLowerCase()).toContain('\r\nretry-after: ');
    expect(refused).toContain(message);
    expect(upstream.requests).toHaveLength(0);
    // Time for the books to fail, too.
    await Bun.sleep(500);

    for (const socket of [first, ...crowd]) socket.destroy();
    while (openFiles(gateway.process.pid) > openFilesMax / 2) await Bun.sleep(10);
    const answered = await gateway.chat(ask);
    expect(answered.status).toBe(200);
    expect(answered.body.provider).toBe('fake');
    const { body } = await gateway.call('GET', '/v1/customer/logs?limit=2', { key: api });
    expect(body.logs).toMatchObject([{ status: 'success' }, { status: 'error', cost: 0 }]);
  },
  120_000,
);
