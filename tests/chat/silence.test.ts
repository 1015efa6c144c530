/** Keep-alives and timeouts on both sides. The tests wait a long time, so they run concurrently. */
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { connect } from 'node:net';
import { isObject, parseJson } from '../../src/core/json.ts';
import { OpenAiPassThrough } from '../../src/dialects/openai-chat/passthrough/stream.ts';
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
import { within } from '../support/wait-until.ts';

const testMs = 120_000;
const messages = [{ role: 'user', content: 'how are you' }];
const upstream = startFakeUpstream();
let inProcess: InProcessGateway;
let gateway: Gateway;

beforeAll(async () => {
  const vendor = { base_url: `${upstream.url}/v1`, api_key: 'sk-silent-0123456789' };
  inProcess = await InProcessGateway.start({
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
  await inProcess.stop();
  upstream.stop();
}, testMs);

test.concurrent(
  'sends the client a keep-alive after 15 seconds of upstream silence',
  async () => {
    const disconnect = new AbortController();
    const openStream = (model: string) =>
      inProcess.fetch({ model, messages, stream: true }, { signal: disconnect.signal });
    upstream.script('spoken', hangMidStream(3, chatAnswer('first words of many')));
    // The upstream sends only the opening chunk. The gateway holds it until the first keep-alive.
    upstream.script('opened', hangMidStream(1));
    const startedAt = performance.now();
    using activeClock = new ActiveClock();
    const now = () => ({ ms: performance.now() - startedAt, awakeMs: activeClock.ms });
    const reader = new SlowReader(await openStream('acme/spoken'));
    const opened = openStream('acme/opened').then(now);
    await reader.readUntil(': keep-alive\n\n');
    for (const { ms, awakeMs } of [now(), await opened]) {
      expect(ms).toBeGreaterThan(14_900);
      expect(awakeMs).toBeLessThan(16_500);
    }
    expect(reader.text).toContain('words');
    disconnect.abort();
    await untilAborted('spoken');
    await untilAborted('opened');
  },
  testMs,
);

/** Waits until the gateway has aborted the only call of this model. */
function untilAborted(model: string): Promise<unknown> {
  return upstream.until((requests) => {
    const calls = requests.filter(({ json }) => isObject(json) && json.model === model);
    return calls.length === 1 && calls[0]?.outcome === 'client-disconnected';
  });
}

const { push } = OpenAiPassThrough.prototype;
/** Simulates a bug in the gateway that one piece of text triggers. */
function pushWithBug(this: OpenAiPassThrough, ...args: Parameters<typeof push>): string {
  if (args[0].data.includes('stumble')) throw new TypeError('words is not iterable');
  return push.apply(this, args);
}

test.concurrent.each<[string, Behavior]>([
  ['late', delayed(15_500, chatAnswer('stumble'))],
  ['torn', gated('rest', 2, chatAnswer('one stumble'))],
])(
  'logs an internal error after the answer has started: model %s',
  async (model, behavior) => {
    spyOn(OpenAiPassThrough.prototype, 'push').mockImplementation(pushWithBug);
    upstream.script(model, behavior);
    const response = await inProcess.fetch({ model: `acme/${model}`, messages, stream: true });
    upstream.open('rest');
    const stream = await readSse(response);
    expect([stream.status, stream.error?.type]).toEqual([200, 'internal_error']);
    const lines = inProcess.logLines.map(parseJson).filter(isObject);
    const failed = lines.filter(({ event }) => event === 'request_failed');
    expect(failed.filter(({ request_id }) => request_id === stream.requestId)).toMatchObject([
      { symbol: 'internal_error', reason: 'words is not iterable' },
    ]);
  },
  testMs,
);

test.concurrent.each<[string, Behavior]>([
  ['begins', hangBeforeHeaders()],
  ['ends', hangMidStream(0, chatAnswer('', { usage: { prompt: 5_000 } }))],
])(
  "returns an estimate if the provider's token count never %s",
  async (model, behavior) => {
    upstream.script(model, behavior);
    const path = '/v1/messages/count_tokens';
    const reply = await inProcess.post({ model: `acme/${model}`, messages }, { path });
    expect(reply.status).toBe(200);
    expect(Object.keys(reply.json)).toEqual(['input_tokens']);
    // The prompt has 3 short words plus the overhead of a message.
    expect(reply.json.input_tokens).toBeWithin(4, 30);
    await untilAborted(model);
  },
  testMs,
);

/** Opens a connection and sends `text`. */
function openConnection(text: string) {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  let received = '';
  socket.on('data', (bytes) => {
    received += bytes.toString();
  });
  socket.on('error', () => undefined);
  if (text !== '') socket.write(text);
  const next = (event: 'data' | 'close') =>
    new Promise<void>((resolve) => socket.once(event, () => resolve()));
  const closed = next('close');
  return {
    socket,
    closed,
    /** Resolves with the received text once it matches or the gateway has closed the connection. */
    async until(pattern: RegExp): Promise<string> {
      while (!pattern.test(received) && !socket.closed) {
        await within(Promise.race([next('data'), closed]), `${pattern} after ${received}`);
      }
      return received;
    },
  };
}

// Bun does this whatever its idle timeout is, but a later version might not.
test.concurrent(
  'closes connections without a complete request and keeps idle ones open',
  async () => {
    const silent = openConnection('');
    const half = openConnection('GET /healthz HTTP/1.1\r\nHos');
    const slow = openConnection('GET /healthz HTTP/1.1\r\nHost: ');
    const dripping = setInterval(() => slow.socket.write('x'), 1_000);
    const idle = openConnection('GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n');
    await idle.until(/"ok"/);
    await Promise.all([silent.closed, half.closed, slow.closed]);
    clearInterval(dripping);
    idle.socket.write('GET /readyz HTTP/1.1\r\nHost: gateway\r\n\r\n');
    const received = await idle.until(/HTTP\/1.1 200.*HTTP\/1.1 200/s);
    expect(received.split('HTTP/1.1 200')).toHaveLength(3);
    idle.socket.destroy();
  },
  testMs,
);
