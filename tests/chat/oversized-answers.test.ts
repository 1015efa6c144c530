import { expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { replyBytesMax } from '../../src/core/bounds.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { within } from '../support/wait-until.ts';

const megabyte = 1024 * 1024;
const chunk = `${megabyte.toString(16)}\r\n${' '.repeat(megabyte)}\r\n`;

/** Sends up to twice the limit in spaces. Any JSON may start with spaces. */
function* endlessAnswer(length: string): Generator<string> {
  const type = 'Content-Type: application/json\r\n';
  yield `HTTP/1.1 200 OK\r\n${type}${length}Transfer-Encoding: chunked\r\n\r\n`;
  for (let bytes = 0; bytes < 2 * replyBytesMax; bytes += megabyte) yield chunk;
  yield '0\r\n\r\n';
}

test.each([
  ['without Content-Length', ''],
  ['with a Content-Length that contradicts its chunks', 'Content-Length: 3\r\n'],
])('stops reading an endless answer %s', async (_, length) => {
  const sendResult = Promise.withResolvers<unknown>();
  const server = createServer((socket) => {
    socket.once('data', () => {
      pipeline(Readable.from(endlessAnswer(length)), socket, sendResult.resolve);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const gateway = await InProcessGateway.start({
    providers: {
      vendor: { dialect: 'openai', base_url: `http://127.0.0.1:${port}/v1`, api_key: null },
    },
    models: [chatModel('acme/chat', [{ provider: 'vendor', model: 'any' }])],
  });
  try {
    const messages = [{ role: 'user', content: 'hello' }];
    expect((await gateway.post({ model: 'acme/chat', messages })).status).toBe(502);
    expect(
      await within(sendResult.promise, 'the upstream to notice the disconnect'),
    ).toBeInstanceOf(Error);
  } finally {
    await gateway.stop();
    server.close();
  }
});

test('interrupts a stream that exceeds the maximum output of its model', async () => {
  const upstream = startFakeUpstream();
  // The limit is 16 times the model's 128,000 tokens of 3 characters: 6,144,000 characters. This
  // stream has more than twice as many.
  upstream.script('endless', chatAnswer('x'.repeat(15_000_000), { chunks: 1_500 }));
  const gateway = await InProcessGateway.start({
    providers: {
      vendor: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' },
    },
    models: [
      chatModel('acme/chat', [
        { provider: 'vendor', model: 'endless', pricing: { prompt: '1', completion: '2' } },
      ]),
    ],
  });
  try {
    const messages = [{ role: 'user', content: 'hello' }];
    const { content, error, doneCount, requestId } = await gateway.stream({
      model: 'acme/chat',
      messages,
      max_tokens: 10,
    });
    expect(error?.message).toBe("The provider returned more output than the model's maximum.");
    expect(content.length).toBeGreaterThan(6_144_000);
    expect(content.length).toBeLessThan(8_000_000);
    expect(doneCount).toBe(0);
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const { charges, status } = await gateway.record(requestId);
    expect(status).toBe('error');
    expect(charges.modelCharge).toBeLessThan(2 * 2_048_000);
  } finally {
    await gateway.stop();
    upstream.stop();
  }
});
