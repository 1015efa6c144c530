import { afterAll, beforeEach, expect, test } from 'bun:test';
import {
  chatAnswer,
  echo,
  gated,
  hangMidStream,
  json,
  redirect,
  refusingUrl,
  startFakeUpstream,
  startFakeUpstreamProcess,
  status500,
  words,
} from '../fake-upstream.ts';
import { connectRaw, postText } from './raw-client.ts';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

const path = '/v1/chat/completions';

async function send(url: string, body: object, init: RequestInit = {}): Promise<Response> {
  const messages = [{ role: 'user', content: 'how are you' }];
  const text = JSON.stringify({ messages, ...body });
  return fetch(`${url}${path}`, { method: 'POST', body: text, ...init });
}

test('script plays a list of behaviors in order and repeats the last one', async () => {
  upstream.script('m', [status500(), chatAnswer('second'), echo()]);
  const replies: string[] = [];
  for (let call = 0; call < 4; call += 1) {
    await (await send(upstream.url, { model: 'm' })).text();
    const entry = upstream.requests.at(-1);
    replies.push(`${entry?.status} ${entry?.text}`);
  }
  expect(replies).toEqual(['500 ', '200 second', '200 how are you', '200 how are you']);
});

test('a script for a model takes precedence over a path, and a path over *', async () => {
  upstream.script('*', chatAnswer('for all'));
  upstream.script(path, chatAnswer('by path'));
  upstream.script('m', chatAnswer('by model'));
  upstream.script('/v1/models', json(200, { data: [] }));
  await (await send(upstream.url, { model: 'm' })).text();
  await (await send(upstream.url, { model: 'other' })).text();
  const messages = `${upstream.url}/v1/messages?beta=true`;
  await (await fetch(messages, { method: 'POST', body: '{"model":"other"}' })).text();
  expect(upstream.requests.map((entry) => entry.text)).toEqual(['by model', 'by path', 'for all']);
  expect(await (await fetch(`${upstream.url}/v1/models`)).json()).toEqual({ data: [] });
});

test('the log has the model of Gemini, Bedrock, and Azure paths', async () => {
  const paths = [
    '/v1beta/models/g-1:streamGenerateContent?alt=sse',
    '/model/a.b%3A0/converse',
    '/openai/deployments/d-1/chat/completions?api-version=1',
  ];
  for (const one of paths) {
    await (await fetch(`${upstream.url}${one}`, { method: 'POST', body: '{}' })).text();
  }
  expect(upstream.requests.map((entry) => entry.model)).toEqual(['g-1', 'a.b:0', 'd-1']);
});

test('Bedrock streams are sent in frames and counted like other streams', async () => {
  upstream.script('a.b:0', chatAnswer('two words', { reasoning: 'one' }));
  const body = '{"system":[{"text":"a"}],"messages":[{"role":"user","content":[{"text":"b c"}]}]}';
  const ask = (verb: string) =>
    fetch(`${upstream.url}/model/a.b%3A0/${verb}`, { method: 'POST', body });
  const reply = await (await ask('converse')).json();
  expect(reply).toMatchObject({
    output: { message: { content: [{ reasoningContent: {} }, { text: 'two words' }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 3, outputTokens: 3, totalTokens: 6 },
  });
  const streamed = await ask('converse-stream');
  expect(streamed.headers.get('content-type')).toBe('application/vnd.amazon.eventstream');
  const bytes = Buffer.from(await streamed.arrayBuffer());
  expect(bytes.readUInt32BE(0)).toBe(bytes.indexOf('contentBlockDelta') - 27);
  expect(upstream.requests.map(({ tokens, text }) => [tokens, text])).toEqual([
    [{ prompt: 3, completion: 3 }, 'two words'],
    [{ prompt: 3, completion: 3 }, 'two words'],
  ]);
});

test('redirect sends its location, and refusingUrl refuses connections', async () => {
  upstream.script('m', redirect('http://203.0.113.10/x', 307));
  const moved = await send(upstream.url, { model: 'm' }, { redirect: 'manual' });
  expect([moved.status, moved.headers.get('location')]).toEqual([307, 'http://203.0.113.10/x']);
  const refused = await fetch(refusingUrl()).catch((error: unknown) => String(error));
  expect(refused).toContain('ECONNREFUSED');
});

test('chunked, split, and pipelined requests are parsed', async () => {
  const connection = await connectRaw(upstream.port);
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Twice: a\r\nX-Twice: b\r\n`;
  const body = '5\r\n{"mod\r\n8;x=y\r\nel":"c"}\r\n0\r\n\r\n';
  for (const character of `${head}Transfer-Encoding: chunked\r\n\r\n${body}`)
    connection.send(character);
  connection.send(postText(path, { model: 'd' }) + postText(path, { model: 'e' }));
  await upstream.until(
    (requests) => requests.filter((entry) => entry.outcome === 'complete').length === 3,
  );
  expect(upstream.requests.map((entry) => entry.model)).toEqual(['c', 'd', 'e']);
  expect(new Set(upstream.requests.map((entry) => entry.connection)).size).toBe(1);
  expect(upstream.requests[0]?.headers['x-twice']).toBe('a, b');
  connection.disconnect();
});

test('a malformed request gets 400 and is logged', async () => {
  const connection = await connectRaw(upstream.port);
  connection.send(`POST ${path} HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: x\r\n\r\n`);
  expect((await connection.finished()).text).toStartWith('HTTP/1.1 400');
  expect(upstream.summary().malformed).toEqual(['both a length and chunks']);
  expect(upstream.requests).toHaveLength(0);
});

test('a client that disconnects in the middle of its request is logged', async () => {
  const connection = await connectRaw(upstream.port);
  connection.send(postText(path, { model: 'm' }).slice(0, -3));
  await upstream.until((requests) => requests.length === 1);
  connection.disconnect();
  const entry = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  expect(entry).toMatchObject({ outcome: 'client-disconnected', bodyAt: null, bytesSent: 0 });
});

test('a stopped fake refuses connections, and exactly one other fake can then listen on its port', async () => {
  const first = startFakeUpstream();
  const { port, url } = first;
  const before = await send(url, { model: 'm' });
  await before.text();
  first.stop();
  const refused = await send(url, { model: 'm' }).catch((error: unknown) => String(error));
  expect(refused).toContain('ECONNREFUSED');
  const second = startFakeUpstream({ port });
  expect(() => startFakeUpstream({ port })).toThrow('Failed to listen');
  expect((await send(url, { model: 'm' })).status).toBe(200);
  second.stop();
});

test('until rejects after its timeout with the last requests', async () => {
  await (await send(upstream.url, { model: 'm' })).text();
  const failure = await upstream.until(() => false, 20).catch((error: unknown) => String(error));
  expect(failure).toMatch(/20 ms.*\/v1\/chat\/completions m 200 0 events complete/);
});

test('1,000 slow streams run concurrently, and their totals add up', async () => {
  upstream.script('m', gated('go', 1, chatAnswer(words(10), { chunkDelayMs: 50 })));
  const request = postText(path, { model: 'm', stream: true, messages: [{ content: 'a b c' }] });
  const connections = await Promise.all(
    Array.from({ length: 1_000 }, async () => {
      const connection = await connectRaw(upstream.port);
      connection.send(request);
      return connection;
    }),
  );
  await Promise.all(connections.map((connection) => connection.received('assistant')));
  upstream.open('go');
  await Promise.all(connections.map((connection) => connection.received('[DONE]')));
  await upstream.until((requests) => requests.every((entry) => entry.outcome === 'complete'));
  expect(upstream.summary()).toMatchObject({
    requests: 1_000,
    open: 0,
    openMax: 1_000,
    byOutcome: { complete: 1_000 },
    byModel: { m: { requests: 1_000, promptTokens: 3_000, completionTokens: 10_000 } },
  });
  for (const connection of connections) connection.disconnect();
});

test('startFakeUpstreamProcess starts a fake with the same interface', async () => {
  const remote = await startFakeUpstreamProcess();
  try {
    await remote.script('m', [chatAnswer('one two'), gated('go', 2, chatAnswer('before after'))]);
    await (await send(remote.url, { model: 'm' })).text();
    const gatedReply = await send(remote.url, { model: 'm', stream: true });
    await remote.until((requests) => requests[1]?.text === 'before');
    await remote.open('go');
    expect(await gatedReply.text()).toContain(' after');
    const [first, second] = await remote.requests();
    expect(first).toMatchObject({ text: 'one two', tokens: { prompt: 3, completion: 2 } });
    expect(Buffer.from(first?.raw ?? []).toString()).toContain('"how are you"');
    expect(second?.text).toBe('before after');
    await remote.script('m', hangMidStream(1));
    const leaving = new AbortController();
    await send(remote.url, { model: 'm', stream: true }, { signal: leaving.signal });
    leaving.abort();
    await remote.until((requests) =>
      requests.some((entry) => entry.outcome === 'client-disconnected'),
    );
    expect((await remote.summary()).byOutcome).toEqual({ complete: 2, 'client-disconnected': 1 });
    await remote.reset();
    expect(await remote.requests()).toEqual([]);
  } finally {
    await remote.stop();
  }
});
