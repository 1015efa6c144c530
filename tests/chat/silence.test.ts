/** How long silence lasts, on both sides. It takes its time, so all of it is waited for at once. */
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { connect } from 'node:net';
import { isObject, parseJson } from '../../src/core/json.ts';
import { OpenAiPassThrough } from '../../src/dialects/openai-chat/same/stream.ts';
import { ActiveClock } from '../support/active-clock.ts';
import {
  type Behavior,
  chatAnswer,
  delayed,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { readSse, SlowReader } from '../support/sse-client.ts';

const testMs = 120_000;
const messages = [{ role: 'user', content: 'how are you' }];
const upstream = startFakeUpstream();
let near: InProcessGateway;
let gateway: Gateway;

beforeAll(async () => {
  const vendor = { base_url: `${upstream.url}/v1`, api_key: 'sk-silent-0123456789' };
  near = await InProcessGateway.start({
    providers: {
      open: { ...vendor, dialect: 'openai' },
      claude: { ...vendor, dialect: 'anthropic' },
    },
    models: [
      chatModel('acme/spoken', [{ provider: 'open', model: 'spoken' }]),
      chatModel('acme/opened', [{ provider: 'open', model: 'opened' }]),
      chatModel('acme/late', [{ provider: 'open', model: 'late' }]),
      chatModel('acme/torn', [{ provider: 'open', model: 'torn' }]),
      chatModel('acme/begins', [{ provider: 'claude', model: 'begins' }]),
      chatModel('acme/ends', [{ provider: 'claude', model: 'ends' }]),
    ],
  });
  gateway = await startGateway();
}, testMs);
afterAll(async () => {
  await gateway.stop();
  await near.stop();
  upstream.stop();
}, testMs);

test.concurrent(
  'a client hears from us every fifteen seconds while the upstream thinks',
  async () => {
    const leaving = new AbortController();
    const ask = (model: string) =>
      near.fetch({ model, messages, stream: true }, { signal: leaving.signal });
    upstream.script('spoken', hangMidStream(3, chatAnswer('first words of many')));
    // Only the opening comes here: it is held back until silence gives it away.
    upstream.script('opened', hangMidStream(1));
    const startedAt = performance.now();
    using activeClock = new ActiveClock();
    const now = () => ({ ms: performance.now() - startedAt, awakeMs: activeClock.ms });
    const reader = new SlowReader(await ask('acme/spoken'));
    const opened = ask('acme/opened').then(now);
    await reader.readUntil(': keep-alive\n\n');
    for (const { ms, awakeMs } of [now(), await opened]) {
      expect(ms).toBeGreaterThan(14_900);
      expect(awakeMs).toBeLessThan(16_500);
    }
    expect(reader.text).toContain('words');
    leaving.abort();
    await untilLeft('spoken');
    await untilLeft('opened');
  },
  testMs,
);

/** The one call of this model was given up by us. */
function untilLeft(model: string): Promise<unknown> {
  return upstream.until((requests) => {
    const calls = requests.filter(({ json }) => isObject(json) && json.model === model);
    return calls.length === 1 && calls[0]?.outcome === 'client-disconnected';
  });
}

const { push } = OpenAiPassThrough.prototype;
/** A mistake of ours, made at one word. */
function stumble(this: OpenAiPassThrough, ...args: Parameters<typeof push>): string {
  if (args[0].data.includes('stumble')) throw new TypeError('words is not iterable');
  return push.apply(this, args);
}

test.concurrent.each<[string, Behavior]>([
  ['late', delayed(15_500, chatAnswer('stumble'))],
  ['torn', gated('rest', 2, chatAnswer('one stumble'))],
])(
  'a mistake of ours in an answer that had begun is in the log: %s',
  async (model, behavior) => {
    spyOn(OpenAiPassThrough.prototype, 'push').mockImplementation(stumble);
    upstream.script(model, behavior);
    const response = await near.fetch({ model: `acme/${model}`, messages, stream: true });
    upstream.open('rest');
    const reading = await readSse(response);
    expect([reading.status, reading.error?.type]).toEqual([200, 'internal_error']);
    const told = near.logLines.map(parseJson).filter(isObject);
    const failed = told.filter(({ event }) => event === 'request_failed');
    expect(failed.filter(({ request_id }) => request_id === reading.requestId)).toMatchObject([
      { symbol: 'internal_error', reason: 'words is not iterable' },
    ]);
  },
  testMs,
);

test.concurrent.each<[string, Behavior]>([
  ['begins', hangBeforeHeaders()],
  ['ends', hangMidStream(0, chatAnswer('', { usage: { prompt: 5_000 } }))],
])(
  'the estimate answers in the place of a provider whose count never %s',
  async (model, behavior) => {
    upstream.script(model, behavior);
    const path = '/v1/messages/count_tokens';
    const reply = await near.post({ model: `acme/${model}`, messages }, { path });
    expect(reply.status).toBe(200);
    expect(Object.keys(reply.json)).toEqual(['input_tokens']);
    // Three short words and what is around them.
    expect(reply.json.input_tokens).toBeWithin(4, 30);
    await untilLeft(model);
  },
  testMs,
);

/** A connection that has sent this much. */
function begin(text: string) {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  let heard = '';
  socket.on('data', (bytes) => {
    heard += bytes.toString();
  });
  socket.on('error', () => undefined);
  if (text !== '') socket.write(text);
  const next = (event: 'data' | 'close') =>
    new Promise<void>((resolve) => socket.once(event, () => resolve()));
  const closed = next('close');
  return {
    socket,
    closed,
    /** All that came, once it says so or the gateway has closed. */
    async until(enough: RegExp): Promise<string> {
      while (!enough.test(heard) && !socket.closed) {
        await Promise.race([next('data'), closed]);
      }
      return heard;
    },
  };
}

// The runtime does this, whatever it is told about idle connections; a new one might not.
test.concurrent(
  'a connection that does not get to its point is closed, one that did is not',
  async () => {
    const silent = begin('');
    const half = begin('GET /healthz HTTP/1.1\r\nHos');
    const slow = begin('GET /healthz HTTP/1.1\r\nHost: ');
    const dripping = setInterval(() => slow.socket.write('x'), 1_000);
    const patient = begin('GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n');
    await patient.until(/"ok"/);
    await Promise.all([silent.closed, half.closed, slow.closed]);
    clearInterval(dripping);
    patient.socket.write('GET /readyz HTTP/1.1\r\nHost: gateway\r\n\r\n');
    const heard = await patient.until(/HTTP\/1.1 200.*HTTP\/1.1 200/s);
    expect(heard.split('HTTP/1.1 200')).toHaveLength(3);
    patient.socket.destroy();
  },
  testMs,
);
