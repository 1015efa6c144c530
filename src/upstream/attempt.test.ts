/** An attempt whose upstream is silent for long, without waiting for it. */
import { afterAll, expect, test } from 'bun:test';
import { offerCalled } from '../../tests/support/offers.ts';
import { type Deadline, DeadlineWatcher } from '../core/deadlines.ts';
import { OpenAiPassThrough } from '../dialects/openai-chat/same/stream.ts';
import type { AttemptContext } from './attempt.ts';
import { type AttemptResult, attempt } from './attempt.ts';
import { publicOnly } from './guard/address-policy.ts';
import { TextSource } from './upstream-call.ts';

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
        // With nothing of the body, the runtime would keep the head.
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

/** Knows all waiters, so that a test can tell them that it has been quiet. */
class KnownWatch extends DeadlineWatcher {
  readonly #source = Promise.withResolvers<TextSource>();

  override add(waiting: Deadline): void {
    super.add(waiting);
    if (waiting instanceof TextSource) this.#source.resolve(waiting);
  }

  async emitSilence(): Promise<void> {
    const source = await this.#source.promise;
    await Bun.sleep(20);
    source.fire();
    await Bun.sleep(0);
  }
}

function begin(watch: DeadlineWatcher): Promise<AttemptResult> {
  const never = () => Promise.reject(new Error('This test does not need it.'));
  const context: AttemptContext = {
    identity,
    outputTokensMax: null,
    client: new AbortController().signal,
    deadlines: watch,
    fetchGuarded: never,
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
    adapter: {
      transformStream: () => new OpenAiPassThrough(identity, { includeUsage: false }),
      transformReply: () => {
        throw new Error('A stream was to come.');
      },
      streamReply: () => undefined,
    },
    stream: true,
  });
}

function openingOf(result: AttemptResult): string {
  if (result.kind !== 'stream') throw new Error(`It is no stream: ${JSON.stringify(result)}`);
  result.source.close();
  result.upstreamCall.cancel();
  return result.opening;
}

test('an upstream that says nothing for long before its answer begins is waited for', async () => {
  const watch = new KnownWatch();
  const result = begin(watch);
  await watch.emitSilence();
  await watch.emitSilence();
  body?.enqueue(chunk({ role: 'assistant', content: 'at last' }));
  expect(openingOf(await result)).toContain('at last');
});

test('a client hears the opening of an answer whose first words take long', async () => {
  const watch = new KnownWatch();
  let isOpen = false;
  const result = begin(watch).finally(() => {
    isOpen = true;
  });
  await watch.emitSilence();
  body?.enqueue(chunk({ role: 'assistant', content: '' }));
  // Until the opening has come: silence before it opens nothing.
  while (!isOpen) await watch.emitSilence();
  expect(openingOf(await result)).toContain('"role":"assistant"');
});
