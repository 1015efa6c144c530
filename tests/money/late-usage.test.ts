/** Charges if the provider's usage arrives late or never. */
import { expect, test } from 'bun:test';
import { chatAnswer, gated, startFakeUpstreamProcess } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const testMs = 120_000;
/** Longer than the 5 seconds that the gateway waits for usage after the finish reason. */
const stoppedMs = 5_500;

const finishedAnswer = chatAnswer('one two three', { usage: { prompt: 1_000, completion: 70 } });

/** Starts an upstream per test, because the tests run concurrently. */
async function newUpstream() {
  const upstream = await startFakeUpstreamProcess();
  // 5 events up to the finish reason: the opening, 3 words, and the reason itself.
  await upstream.script('chat', gated('usage', 5, finishedAnswer));
  const price = { prompt: '1', completion: '2' };
  const options = { upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } } };
  return { upstream, options };
}

/** Reads a stream up to its finish reason, while the upstream withholds the usage. */
async function readToFinish(gateway: Gateway) {
  const messages = [{ role: 'user', content: 'Count.' }];
  const stream = await gateway.stream({ model: 'test/chat', messages });
  for await (const data of stream) if (data.includes('"stop"')) break;
  return { stream, id: stream.response.headers.get('x-request-id') };
}

async function generationOf(gateway: Gateway, id: string | null) {
  const { body } = await gateway.call('GET', `/v1/generation?id=${id}`, { key: gateway.keys.api });
  return body.data;
}

test.concurrent(
  'charges the usage that arrived while the process was suspended',
  async () => {
    const { upstream, options } = await newUpstream();
    await using gateway = await startGateway(options);
    const { stream, id } = await readToFinish(gateway);
    gateway.process.kill('SIGSTOP');
    await upstream.open('usage');
    await upstream.until((requests) => requests.every(({ outcome }) => outcome === 'complete'));
    await Bun.sleep(stoppedMs);
    gateway.process.kill('SIGCONT');
    await stream.read();
    expect(await generationOf(gateway, id)).toMatchObject({
      total_cost: 1_000 + 2 * 70,
      cancelled: false,
    });
    await upstream.stop();
  },
  testMs,
);

test.concurrent(
  'charges an estimate if the usage has not arrived when the process shuts down',
  async () => {
    const { upstream, options } = await newUpstream();
    const gateway = await startGateway(options);
    const { stream, id } = await readToFinish(gateway);
    await stream.disconnect().catch(() => undefined);
    await gateway.stop();
    await using next = await gateway.another();
    // "Count." has 6 characters, which are 2 tokens; 13 characters of output are 4.
    const estimate = { tokens_prompt: 2, total_cost: 2 + 2 * 4 };
    expect(await generationOf(next, id)).toMatchObject({ ...estimate, cancelled: true });
    await upstream.stop();
  },
  testMs,
);
