/**
 * Measures the CPU time per stream chunk, for chunks that are forwarded and for chunks that are
 * translated. Run it with `bun bench/translation.ts`. It fails if translating takes over 15 µs
 * longer than forwarding.
 */

import { anthropicClient } from '../src/dialects/anthropic/client-request.ts';
import { AnthropicPassThrough } from '../src/dialects/anthropic/passthrough/stream.ts';
import { anthropicUpstream } from '../src/dialects/anthropic/upstream/reader.ts';
import type { SseMessage, StreamTransform } from '../src/dialects/dialect.ts';
import { Translation } from '../src/dialects/engine.ts';
import { openAiClient } from '../src/dialects/openai-chat/client/stream-writer.ts';
import { OpenAiPassThrough } from '../src/dialects/openai-chat/passthrough/stream.ts';
import { openAiUpstream } from '../src/dialects/openai-chat/upstream/reader.ts';
import { makePrompt } from '../tests/support/prompts.ts';

const chunks = 2_000;
const rounds = 50;
const extraMicrosMax = 15;

const identity = { id: 'chatcmpl-feedface', model: 'acme/large', provider: 'acme', created: 1 };
const words = Array.from({ length: chunks }, (_, index) => ` word${index}`);
const messagesOf = (bodies: readonly object[]): SseMessage[] =>
  bodies.map((body) => ({ event: null, data: JSON.stringify(body) }));

const openAiStream = messagesOf(
  words.map((content) => ({
    id: 'chatcmpl-upstream',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'upstream',
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
  })),
);
const usage = { input_tokens: 10, output_tokens: 1 };
const anthropicStream = messagesOf([
  { type: 'message_start', message: { id: 'msg_upstream', model: 'upstream', usage } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  ...words.map((text) => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text },
  })),
]);

const toOpenAi = openAiClient({ includeUsage: true });
const toAnthropic = anthropicClient({ inputTokensEstimate: 9 });
const cases: readonly [string, () => StreamTransform, readonly SseMessage[]][] = [
  [
    'OpenAI, forwarded',
    () => new OpenAiPassThrough(identity, { includeUsage: true }),
    openAiStream,
  ],
  ['Anthropic, forwarded', () => new AnthropicPassThrough(identity, 9), anthropicStream],
  [
    'OpenAI for an Anthropic client',
    () => new Translation(makePrompt(), toAnthropic, openAiUpstream).transformStream(identity),
    openAiStream,
  ],
  [
    'Anthropic for an OpenAI client',
    () => new Translation(makePrompt(), toOpenAi, anthropicUpstream).transformStream(identity),
    anthropicStream,
  ],
];

/** Returns the time of the fastest round, to exclude the machine's other work. */
function microsPerChunk(open: () => StreamTransform, messages: readonly SseMessage[]): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const transform = open();
    let length = 0;
    const start = performance.now();
    for (const message of messages) length += transform.push(message).length;
    const micros = ((performance.now() - start) * 1_000) / messages.length;
    if (length === 0) throw new Error('The transform wrote no output.');
    best = Math.min(best, micros);
  }
  return best;
}

const measured = cases.map(([name, open, messages]) => {
  const micros = microsPerChunk(open, messages);
  process.stdout.write(`${name.padEnd(32)} ${micros.toFixed(2)} µs per chunk\n`);
  return micros;
});
const [openAi = 0, anthropic = 0, ...translated] = measured;
if (Math.max(...translated) > Math.min(openAi, anthropic) + extraMicrosMax) process.exit(1);
