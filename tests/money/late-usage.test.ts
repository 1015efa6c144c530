/** Usage is told last: what comes late, comes behind a client that has left, or never comes. */
import { expect, test } from 'bun:test';
import { gated, chatAnswer, startFakeUpstreamProcess } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const testMs = 120_000;
/** Longer than the five seconds in which usage must follow a finished answer. */
const stoppedMs = 5_500;

const said = chatAnswer('one two three', { usage: { prompt: 1_000, completion: 70 } });

/** One for each test: they wait at once. */
async function newUpstream() {
  const upstream = await startFakeUpstreamProcess();
  // Five events up to the finish reason: the opening, three words and the reason itself.
  await upstream.script('chat', gated('usage', 5, said));
  const price = { prompt: '1', completion: '2' };
  const options = { upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } } };
  return { upstream, options };
}

/** A stream whose client has read its finish reason, and whose usage waits behind a gate. */
async function finished(gateway: Gateway) {
  const messages = [{ role: 'user', content: 'Count.' }];
  const stream = await gateway.stream({ model: 'test/chat', messages });
  for await (const data of stream) if (data.includes('"stop"')) break;
  return { stream, id: stream.response.headers.get('x-request-id') };
}

async function bill(gateway: Gateway, id: string | null) {
  const { body } = await gateway.call('GET', `/v1/generation?id=${id}`, { key: gateway.keys.api });
  return body.data;
}

test.concurrent(
  'what came while the process was stopped is charged, and not an estimate',
  async () => {
    const { upstream, options } = await newUpstream();
    await using gateway = await startGateway(options);
    const { stream, id } = await finished(gateway);
    gateway.process.kill('SIGSTOP');
    await upstream.open('usage');
    await upstream.until((requests) => requests.every(({ outcome }) => outcome === 'complete'));
    await Bun.sleep(stoppedMs);
    gateway.process.kill('SIGCONT');
    await stream.read();
    expect(await bill(gateway, id)).toMatchObject({ total_cost: 1_000 + 2 * 70, cancelled: false });
    await upstream.stop();
  },
  testMs,
);

test.concurrent(
  'a process that ends meanwhile books the estimate when the usage never comes',
  async () => {
    const { upstream, options } = await newUpstream();
    const gateway = await startGateway(options);
    const { stream, id } = await finished(gateway);
    await stream.leave().catch(() => undefined);
    await gateway.stop();
    await using next = await gateway.another();
    // «Count.» has six letters, 2 tokens; 13 characters out are 4.
    const estimate = { tokens_prompt: 2, total_cost: 2 + 2 * 4 };
    expect(await bill(next, id)).toMatchObject({ ...estimate, cancelled: true });
    await upstream.stop();
  },
  testMs,
);
