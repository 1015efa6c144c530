/**
 * What a client pays that disconnects before the answer starts. An input token costs 1 credit at
 * the first provider and 5 at the second.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { isObject } from '../../src/core/json.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import {
  chatAnswer,
  embeddings,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  speech,
  startFakeUpstream,
  status,
  status500,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { waitUntil } from '../support/wait-until.ts';

const upstream = startFakeUpstream();
/** A server that accepts connections but reads nothing. */
const unreading = createServer({ pauseOnConnect: true }, (socket) => sockets.push(socket));
const sockets: Socket[] = [];
let gateway: InProcessGateway;

const openai = (url: string) => ({
  dialect: 'openai',
  base_url: `${url}/v1`,
  api_key: 'sk-upstream-012345',
});

function settings(unreadingUrl: string) {
  const fake = openai(upstream.url);
  const pricing = { prompt: '1', completion: '2' };
  const first = { provider: 'first', pricing };
  return {
    limits: { requests_per_minute: 100_000 },
    providers: {
      first: fake,
      second: fake,
      small: { ...fake, quirks: { embedding_batch: 1 } },
      unreading: openai(unreadingUrl),
    },
    models: [
      chatModel('test/two', [
        { ...first, model: 'broken', priority: 0 },
        { provider: 'second', model: 'works', priority: 1, pricing: { ...pricing, prompt: '5' } },
      ]),
      chatModel('test/request-fee', [
        { ...first, model: 'chat', pricing: { ...pricing, request: '0.000007' } },
      ]),
      chatModel('test/unread', [{ ...first, provider: 'unreading', model: 'chat' }]),
      chatModel('test/embed', [{ ...first, provider: 'small', model: 'embed' }], {
        features: ['embeddings'],
      }),
      chatModel('test/embed-all', [{ ...first, model: 'embed' }], { features: ['embeddings'] }),
      chatModel('test/image', [{ ...first, model: 'image' }], { features: ['image_generation'] }),
      chatModel(
        'test/speech',
        [{ provider: 'first', model: 'speech', pricing: { characters: '15' } }],
        { features: ['speech'] },
      ),
    ],
  };
}

beforeAll(async () => {
  unreading.listen(0, '127.0.0.1');
  await once(unreading, 'listening');
  const address = unreading.address();
  const port = isObject(address) ? Number(address.port) : 0;
  gateway = await InProcessGateway.start(settings(`http://127.0.0.1:${port}`));
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  for (const socket of sockets) socket.destroy();
  unreading.close();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const inputNote =
  'The client disconnected before the answer started. The provider was already processing the ' +
  'request, so its input is charged, as an estimate.';
const freeNote = 'The client disconnected before the answer started. Nothing is charged.';

const messagesOf = (length: number) => [{ role: 'user', content: 'x'.repeat(length) }];

async function newestId(at: InProcessGateway): Promise<string> {
  const { json } = await at.get('/v1/customer/logs?limit=1');
  const [row]: unknown[] = Array.isArray(json.logs) ? json.logs : [];
  return isObject(row) ? String(row.request_id) : '';
}

interface Abandoned {
  readonly path?: string;
  readonly at?: InProcessGateway;
  /** Resolves when the client is to disconnect. */
  readonly until?: () => Promise<unknown>;
}

/** Disconnects once an upstream has read a body, and returns the record. */
async function abandon(body: object, abandoned: Abandoned = {}): Promise<RequestRecord> {
  const { path = '/v1/chat/completions', at = gateway } = abandoned;
  const { length } = upstream.requests;
  const { until = () => upstream.until((requests) => requests[length]?.model) } = abandoned;
  const before = await newestId(at);
  const client = new AbortController();
  const sent = at.fetch(body, { path, signal: client.signal });
  const response = sent.then((opened) => opened.text()).catch(() => undefined);
  await until();
  client.abort();
  await response;
  let requestId = before;
  for (; requestId === before; requestId = await newestId(at)) await Bun.sleep(1);
  return at.record(requestId);
}

describe('abandoned chat request', () => {
  const chat = { model: 'test/two', messages: messagesOf(240) };

  test.each([
    ['non-streaming', {}],
    ['streaming', { stream: true }],
  ])('is charged for its input and does not count against the provider, %s', async (_, fields) => {
    upstream.script('broken', [...Array(6).fill(gated('never', 0)), chatAnswer('Here.')]);
    for (let round = 0; round < 6; round += 1) {
      const record = await abandon({ ...chat, ...fields });
      expect(record).toMatchObject({
        ...{ charges: { modelCharge: 60 }, prices: { prompt: '1' }, usageEstimated: true },
        ...{ status: 'error', error: null, cancelled: true, note: inputNote },
        ...{ model: 'test/two', provider: 'first', firstByteMs: null },
      });
      expect(record.attempts.map(({ outcome }) => outcome)).toEqual(['client_disconnected']);
    }
    // 5 failures in a row would have moved this request to another provider.
    const { requestId } = await gateway.post({ ...chat, ...fields });
    expect(await gateway.record(requestId)).toMatchObject({ provider: 'first', error: null });
  });

  test('is charged for the running attempt only, even if its response has begun', async () => {
    upstream.script('broken', status500());
    upstream.script('works', hangMidStream(1, chatAnswer('never')));
    const record = await abandon({ ...chat, stream: true });
    expect(record).toMatchObject({ charges: { modelCharge: 60 * 5 }, prices: { prompt: '5' } });
    expect(record).toMatchObject({ provider: 'second', note: inputNote });
    expect(record.attempts.map(({ outcome }) => outcome)).toEqual([
      'server',
      'client_disconnected',
    ]);
  });

  test('is charged the price per request, too', async () => {
    upstream.script('chat', hangBeforeHeaders());
    const record = await abandon({ ...chat, model: 'test/request-fee' });
    expect(record.charges.modelCharge).toBe(60 + 7);
  });

  test('is free while the provider has not read all of it', async () => {
    // Longer than the socket buffers of both sides.
    const messages = messagesOf(16 * 1024 * 1024);
    const until = async () => {
      await waitUntil(() => sockets.length > 0);
    };
    const record = await abandon({ ...chat, messages, model: 'test/unread' }, { until });
    expect(record).toMatchObject({ charges: { modelCharge: 0 }, prices: null, note: freeNote });
    expect(record).toMatchObject({ cancelled: true, model: null });
  });

  test('is free with billing.abandoned set to free', async () => {
    const at = await InProcessGateway.start({
      ...settings(upstream.url),
      billing: { abandoned: 'free' },
    });
    upstream.script('broken', hangBeforeHeaders());
    const record = await abandon(chat, { at });
    expect(record).toMatchObject({ charges: { modelCharge: 0 }, note: freeNote, cancelled: true });
    await at.stop();
  });
});

test('abandoned embeddings are charged for the inputs that were sent', async () => {
  // 4 calls of 1 input each run at once. The fifth is sent after these.
  upstream.script('embed', [...Array(3).fill(embeddings()), hangBeforeHeaders()]);
  const input = ['a', 'b', 'c', 'd', 'e'].map((letter) => letter.repeat(40));
  const until = () => upstream.until((requests) => requests.filter(({ model }) => model)[3]);
  const record = await abandon({ model: 'test/embed', input }, { path: '/v1/embeddings', until });
  expect(record).toMatchObject({ charges: { modelCharge: 40 }, note: inputNote });
});

test('abandoned embeddings are not charged for calls that were rejected', async () => {
  // All inputs at once are too many, so they are sent again in 2 calls.
  upstream.script('embed', [status(413), embeddings(), hangBeforeHeaders()]);
  const input = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(40));
  const until = () => upstream.until((requests) => requests.filter(({ model }) => model)[2]);
  const record = await abandon(
    { model: 'test/embed-all', input },
    { path: '/v1/embeddings', until },
  );
  expect(record).toMatchObject({ charges: { modelCharge: 40 }, note: inputNote });
});

test('an abandoned image is charged for its prompt', async () => {
  upstream.script('image', hangBeforeHeaders());
  const body = { model: 'test/image', prompt: 'x'.repeat(40) };
  const record = await abandon(body, { path: '/v1/images/generations' });
  expect(record).toMatchObject({ charges: { modelCharge: 10 }, note: inputNote });
});

test('abandoned speech is free, because its charge is proportional to the delivered audio', async () => {
  upstream.script('speech', gated('never', 0, speech()));
  const body = { model: 'test/speech', input: 'Hello', voice: 'alloy' };
  const record = await abandon(body, { path: '/v1/audio/speech' });
  expect(record).toMatchObject({ charges: { modelCharge: 0 }, note: freeNote, cancelled: true });
});
