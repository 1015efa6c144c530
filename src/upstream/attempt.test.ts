/** Tests attempts at an upstream that is silent for a long time, without waiting that long. */
import { afterAll, expect, test } from 'bun:test';
import { offerCalled } from '../../tests/support/offers.ts';
import { type Deadline, DeadlineWatcher } from '../core/deadlines.ts';
import { OpenAiPassThrough } from '../dialects/openai-chat/passthrough/stream.ts';
import type { AttemptContext } from './attempt.ts';
import { type AttemptResult, attempt } from './attempt.ts';
import { publicOnly } from './guard/address-policy.ts';
import { TextSource } from './text-source.ts';

const identity = { id: 'chatcmpl-1', model: 'acme/chat', provider: 'vendor', created: 1 };

let body: ReadableStreamDefaultController<string> | undefined;
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  fetch() {
    const stream = new ReadableStream<string>({
      start: (controller) => {
        body = controller;
        // Without a first piece of the body, the runtime would hold back the head.
        controller.enqueue(': here\n\n');
      },
    });
    return new Response(stream, { headers: { 'content-type': 'text/event-stream' } });
  },
});
afterAll(() => server.stop(true));

function chunk(delta: object): string {
  const choices = [{ index: 0, delta, finish_reason: null }];
  const head = { id: 'x', object: 'chat.completion.chunk', created: 0, model: 'hidden' };
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`;
}

/** Lets a test fire the deadline of the attempt's source. */
class ManualWatcher extends DeadlineWatcher {
  readonly #source = Promise.withResolvers<TextSource>();

  override add(waiting: Deadline): void {
    super.add(waiting);
    if (waiting instanceof TextSource) this.#source.resolve(waiting);
  }

  async fireSilence(): Promise<void> {
    const source = await this.#source.promise;
    await Bun.sleep(20);
    source.fire();
    await Bun.sleep(0);
  }
}

function begin(deadlines: DeadlineWatcher): Promise<AttemptResult> {
  const never = () => Promise.reject(new Error('This test does not use it.'));
  const context: AttemptContext = {
    identity,
    tenantId: 'acme',
    outputTokensMax: null,
    openBy: Number.POSITIVE_INFINITY,
    clientSignal: new AbortController().signal,
    deadlines,
    fetchGuarded: never,
    inlineImages: never,
    reportDropped: () => undefined,
    reserveMemory: () => undefined,
    releaseMemory: () => undefined,
    extendHold: never,
    spendableCredits: never,
    checkAddress: never,
    addressPolicy: publicOnly,
  };
  const timeouts = { timeoutMs: 60_000, idleTimeoutMs: 60_000 };
  return attempt({
    offer: offerCalled('hidden', { baseUrl: `http://127.0.0.1:${server.port}`, ...timeouts }),
    context,
    request: { path: '/chat/completions', body: '{}' },
    readReply: () => {
      throw new Error('A stream was expected.');
    },
    stream: {
      transformStream: () => new OpenAiPassThrough(identity, { includeUsage: false }),
      streamReply: () => undefined,
    },
  });
}

function openingOf(result: AttemptResult): string {
  if (result.kind !== 'stream') throw new Error(`Not a stream: ${JSON.stringify(result)}`);
  result.source.close();
  result.upstreamCall.cancel();
  return result.opening;
}

test('attempt waits for an upstream that is silent before its answer begins', async () => {
  const deadlines = new ManualWatcher();
  const result = begin(deadlines);
  await deadlines.fireSilence();
  await deadlines.fireSilence();
  body?.enqueue(chunk({ role: 'assistant', content: 'at last' }));
  expect(openingOf(await result)).toContain('at last');
});

test('attempt returns the opening if the first output takes a long time', async () => {
  const deadlines = new ManualWatcher();
  let isOpen = false;
  const result = begin(deadlines).finally(() => {
    isOpen = true;
  });
  await deadlines.fireSilence();
  body?.enqueue(chunk({ role: 'assistant', content: '' }));
  // Silence before the opening has arrived has no effect.
  while (!isOpen) await deadlines.fireSilence();
  expect(openingOf(await result)).toContain('"role":"assistant"');
});
