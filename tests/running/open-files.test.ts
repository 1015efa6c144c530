/** A gateway that has reached the system's limit of open files and connections. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { waitUntil } from '../support/wait-until.ts';

const upstream = startFakeUpstream();
const otherUpstream = startFakeUpstream();
afterAll(() => Promise.all([upstream.stop(), otherUpstream.stop()]));
beforeEach(() => upstream.reset());

/** Enough for startup and a few clients. */
const openFilesMax = 100;

function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

async function openConnection(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** Sends a chat on an open connection and returns the first bytes of the response. */
async function chatOn(socket: Socket, key: string, body: object): Promise<string> {
  const text = JSON.stringify(body);
  const head = ['POST /v1/chat/completions HTTP/1.1', 'Host: gateway', `x-api-key: ${key}`];
  head.push('Content-Type: application/json', `Content-Length: ${text.length}`);
  socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  return new Promise((resolve) => socket.once('data', (bytes) => resolve(bytes.toString())));
}

const journalError = "The gateway can't write its journal. Try again shortly.";
const connectionError = 'This gateway has too many open connections. Try again shortly.';

test.each([
  ['its first request', [], journalError],
  ['a later request', ['test/before'], connectionError],
] as const)(
  'without free file descriptors, the gateway rejects %s with 503, blames no provider, and recovers',
  async (_, before, message) => {
    const models = { 'test/chat': {} };
    await using gateway = await startGateway({
      upstreams: {
        warm: { url: otherUpstream.url, models: { 'test/before': {} } },
        fake: { url: upstream.url, models },
        other: { url: upstream.url, models },
      },
      openFilesMax,
    });
    const chatOf = (model: string) => ({ model, messages: [{ role: 'user', content: 'Hello.' }] });
    const chat = chatOf('test/chat');
    const { api } = gateway.keys;
    for (const model of before) expect((await gateway.chat(chatOf(model))).status).toBe(200);
    const first = await openConnection(gateway.url);
    first.write('GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n');
    await new Promise((resolve) => first.once('data', resolve));
    // The system accepts connections beyond the limit and keeps them waiting.
    const others = await Promise.all(
      Array.from({ length: openFilesMax }, () => openConnection(gateway.url)),
    );
    await waitUntil(() => openFiles(gateway.process.pid) >= openFilesMax);

    const rejected = await chatOn(first, api, chat);
    expect(rejected).toStartWith('HTTP/1.1 503');
    expect(rejected.toLowerCase()).toContain('\r\nretry-after: ');
    expect(rejected).toContain(message);
    expect(upstream.requests).toHaveLength(0);
    // Wait until the batch writer has failed as well.
    await Bun.sleep(500);

    for (const socket of [first, ...others]) socket.destroy();
    await waitUntil(() => openFiles(gateway.process.pid) <= openFilesMax / 2);
    const answered = await gateway.chat(chat);
    expect(answered.status).toBe(200);
    expect(answered.body.provider).toBe('fake');
    const { body } = await gateway.call('GET', '/v1/customer/logs?limit=2', { key: api });
    expect(body.logs).toMatchObject([{ status: 'success' }, { status: 'error', cost: 0 }]);
  },
  120_000,
);
