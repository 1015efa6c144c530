import { afterAll, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { ActiveClock } from '../../tests/support/active-clock.ts';
import { waitUntil } from '../../tests/support/wait-until.ts';
import { startDemoUpstream } from './server.ts';

const demo = startDemoUpstream();
afterAll(() => demo.stop());

interface ErrorReply {
  error: { type: string; message: string };
}

async function readJson<Shape>(response: Response): Promise<Shape> {
  return (await response.json()) as Shape;
}

const chatPath = '/chat/completions';

function post(path: string, body: string): Promise<Response> {
  return fetch(demo.url + path, { method: 'POST', body });
}

test('GET /v1/models lists the 5 models under their upstream names', async () => {
  const response = await fetch(`${demo.url}/models`);
  const { data } = await readJson<{ data: { id: string }[] }>(response);
  expect(data.map((model) => model.id)).toEqual([
    'demo-chat',
    'demo-embed',
    'demo-speech',
    'demo-transcribe',
    'demo-image',
  ]);
});

test("an unknown path returns 404 in OpenAI's format", async () => {
  const response = await post('/nothing', '{}');
  expect(response.status).toBe(404);
  expect(await response.json()).toEqual({
    error: {
      message: 'The demo has no /v1/nothing.',
      type: 'invalid_request_error',
      param: null,
      code: null,
    },
  });
});

test('a wrong method returns 405 with the allowed method', async () => {
  const response = await fetch(demo.url + chatPath);
  expect(response.status).toBe(405);
  expect(response.headers.get('allow')).toBe('POST');
  expect((await readJson<ErrorReply>(response)).error.type).toBe('invalid_request_error');
});

test('JSON endpoints return 400 for bodies that are not JSON objects', async () => {
  const paths = [chatPath, '/embeddings', '/audio/speech', '/images/generations'];
  const bodies = [
    '',
    '{',
    'null',
    '[]',
    '"demo chat text"',
    '{"messages": [1]',
    '['.repeat(200_000),
  ];
  for (const path of paths) {
    for (const body of bodies) {
      const response = await post(path, body);
      expect(response.status).toBe(400);
      expect((await readJson<ErrorReply>(response)).error.message).toContain('JSON');
    }
  }
});

test('form endpoints return 400 for bodies that are not forms', async () => {
  for (const path of ['/audio/transcriptions', '/images/edits']) {
    const plain = await post(path, '{}');
    const broken = await fetch(demo.url + path, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
      body: 'no parts here',
    });
    expect([plain.status, broken.status]).toEqual([400, 400]);
    expect((await readJson<ErrorReply>(plain)).error.message).toContain('multipart');
  }
});

test('a stream ends when its client disconnects', async () => {
  const client = new AbortController();
  const response = await fetch(demo.url + chatPath, {
    method: 'POST',
    signal: client.signal,
    // Without a disconnect, this stream would take more than 10 s.
    body: JSON.stringify({
      messages: [{ role: 'user', content: 'word '.repeat(40) }],
      stream: true,
      demo_delay_ms: 200,
    }),
  });
  await response.body?.getReader().read();
  expect(demo.openStreams()).toBe(1);
  client.abort();
  using activeClock = new ActiveClock();
  await waitUntil(() => demo.openStreams() === 0 || activeClock.ms > 2_000, { everyMs: 20 });
  expect(demo.openStreams()).toBe(0);
});

test('a request that is too large is rejected before its body is read', async () => {
  const { hostname, port } = new URL(demo.url);
  const bytes = 200 * 1024 * 1024;
  const status = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(`POST /v1/images/edits HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`);
    });
    socket.once('data', (data) => {
      resolve(data.toString('latin1').split('\r\n')[0] ?? '');
      socket.destroy();
    });
    socket.once('error', reject);
  });
  expect(status).toStartWith('HTTP/1.1 413 ');
});

test('a stopped server does not listen', async () => {
  const other = startDemoUpstream();
  expect((await fetch(`${other.url}/models`)).status).toBe(200);
  await other.stop();
  const answered = await fetch(`${other.url}/models`).then(
    () => true,
    () => false,
  );
  expect(answered).toBe(false);
});
