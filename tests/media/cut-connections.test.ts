/**
 * Answers over TLS without a length, from a server that closes the connection without TLS's
 * close_notify. Such an answer may be cut anywhere.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, createServer as createTcpServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { wavFile } from '../support/audio-files.ts';
import { authority, key, nameLeaf } from '../support/certificates.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';

const servers: Server[] = [];

async function portOf(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** What the provider answers to every request. */
const reply = { headers: '', body: '' };

/** Reads requests up to the end of their body, and closes the connection after its answer. */
const provider = createServer({ key, cert: nameLeaf, maxVersion: 'TLSv1.2' }, (socket) => {
  let received = '';
  socket.on('error', () => undefined);
  socket.on('data', (bytes: Buffer) => {
    received += bytes.toString('latin1');
    const [head = '', body] = received.split(/\r\n\r\n(.*)/s);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    if (body === undefined || body.length < length) return;
    socket.end(`HTTP/1.1 200 OK\r\n${reply.headers}\r\n${reply.body}`);
  });
});

const alertRecord = 21;

/** Returns the TLS records without alerts, and the bytes of the incomplete record at the end. */
function splitRecords(bytes: Buffer): { readonly passed: Buffer; readonly rest: Buffer } {
  const passed: Buffer[] = [];
  let at = 0;
  while (at + 5 <= bytes.length && at + 5 + bytes.readUInt16BE(at + 3) <= bytes.length) {
    const end = at + 5 + bytes.readUInt16BE(at + 3);
    if (bytes[at] !== alertRecord) passed.push(bytes.subarray(at, end));
    at = end;
  }
  return { passed: Buffer.concat(passed), rest: bytes.subarray(at) };
}

/** Forwards everything but alerts. TLS 1.2 doesn't hide the type of a record. */
async function withoutCloseNotify(port: number): Promise<number> {
  return portOf(
    createTcpServer((client) => {
      const upstream = connect(port, '127.0.0.1');
      let waiting: Buffer = Buffer.alloc(0);
      client.on('error', () => upstream.destroy());
      upstream.on('error', () => client.destroy());
      client.on('data', (bytes) => upstream.write(bytes));
      client.on('end', () => upstream.end());
      upstream.on('data', (bytes: Buffer) => {
        const { passed, rest } = splitRecords(Buffer.concat([waiting, bytes]));
        waiting = rest;
        if (passed.length > 0) client.write(passed);
      });
      upstream.on('end', () => client.end());
    }),
  );
}

let gateway: Gateway;

beforeAll(async () => {
  const port = await withoutCloseNotify(await portOf(provider));
  const trusted = join(newFolder(), 'authority.pem');
  writeFileSync(trusted, authority);
  const model = (id: string, output: string, feature: string, pricing: object) => ({
    ...{ id, name: id, input_modalities: ['text'], output_modalities: [output] },
    ...{ features: [feature], endpoints: [{ provider: 'tls', model: 'cut', pricing }] },
  });
  gateway = await startGateway({
    env: { NODE_EXTRA_CA_CERTS: trusted },
    config: {
      catalogue: 'none',
      providers: {
        tls: { dialect: 'openai', base_url: `https://localhost:${port}/v1`, api_key: 'sk-theirs' },
      },
      models: [
        model('test/voice', 'audio', 'speech', { bytes: '1' }),
        model('test/ears', 'text', 'transcription', { minute: '1' }),
        {
          ...model('test/chat', 'text', 'tools', { prompt: '1', completion: '1' }),
          context_length: 9_000,
        },
      ],
    },
  });
});
afterAll(async () => {
  await gateway.stop();
  for (const server of servers) server.close();
});

function post(path: string, body: object | FormData) {
  const isForm = body instanceof FormData;
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.keys.api}`,
      ...(isForm ? {} : { 'content-type': 'application/json' }),
    },
    body: isForm ? body : JSON.stringify(body),
  });
}

async function expectIncomplete(response: Response): Promise<void> {
  expect([response.status, await response.json()]).toMatchObject([
    502,
    { error: { message: 'The provider sent an invalid response.' } },
  ]);
  expect(await gateway.balance()).toBe(10_000_000);
}

const speech = { model: 'test/voice', input: 'Hello!', voice: 'alloy' };

function transcription(format: string): FormData {
  const form = new FormData();
  form.set('model', 'test/ears');
  form.set('response_format', format);
  form.set('file', new Blob([wavFile(4)]), 'audio.wav');
  return form;
}

const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello!' }] };
const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi' } };
const completion = JSON.stringify({ id: 'x', object: 'chat.completion', choices: [choice] });

describe('an answer over TLS without a length or close_notify', () => {
  test('is rejected if it is audio, which does not show its end', async () => {
    Object.assign(reply, { headers: 'content-type: audio/mpeg\r\n', body: 'ID3 half a song' });
    await expectIncomplete(await post('/v1/audio/speech', speech));
  });

  test('is rejected if it is a transcript in plain text', async () => {
    Object.assign(reply, { headers: 'content-type: text/plain\r\n', body: 'Half a sen' });
    await expectIncomplete(await post('/v1/audio/transcriptions', transcription('text')));
  });

  test('is accepted if it is audio that has its length', async () => {
    const headers = 'content-type: audio/mpeg\r\ncontent-length: 3\r\n';
    Object.assign(reply, { headers, body: 'ID3' });
    const response = await post('/v1/audio/speech', speech);
    expect([response.status, await response.text()]).toEqual([200, 'ID3']);
  });

  test('is accepted if it is complete JSON', async () => {
    Object.assign(reply, { headers: 'content-type: application/json\r\n', body: completion });
    const response = await post('/v1/chat/completions', chat);
    expect([response.status, await response.json()]).toMatchObject([
      200,
      { choices: [{ message: { content: 'Hi' } }] },
    ]);
  });

  test('is rejected if it is JSON that was cut', async () => {
    const body = completion.slice(0, -1);
    Object.assign(reply, { headers: 'content-type: application/json\r\n', body });
    expect((await post('/v1/chat/completions', chat)).status).toBe(502);
  });

  test('breaks off if it is a stream without its last event', async () => {
    const delta = { index: 0, delta: { role: 'assistant', content: 'Half' }, finish_reason: null };
    const chunk = { id: 'x', object: 'chat.completion.chunk', choices: [delta] };
    const body = `data: ${JSON.stringify(chunk)}\n\n`;
    Object.assign(reply, { headers: 'content-type: text/event-stream\r\n', body });
    const response = await post('/v1/chat/completions', { ...chat, stream: true });
    const received: string[] = [];
    const decoder = new TextDecoder();
    const reading = (async () => {
      for await (const piece of response.body ?? []) received.push(decoder.decode(piece));
    })();
    await reading.catch(() => undefined);
    expect(received.join('')).toContain('"error"');
    expect(received.join('')).not.toContain('[DONE]');
  });
});
