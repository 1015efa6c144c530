/**
 * Measures the CPU time per stream event in the event reader and the OpenAI pass-through. Run it
 * with `bun bench/event-stream.ts`.
 */
import { EventStreamReader } from '../src/dialects/event-stream.ts';
import { OpenAiPassThrough } from '../src/dialects/openai-chat/passthrough/stream.ts';

const identity = {
  id: 'chatcmpl-0123456789abcdef0123456789abcdef',
  model: 'acme/chat-large',
  provider: 'acme',
  created: 1_800_000_000,
};
const eventsPerStream = 500;
const streams = 400;

/** Returns a chunk of about 200 bytes, the usual size of a provider's chunks. */
function chunkOf(delta: object, at: number): string {
  const chunk = {
    id: 'chatcmpl-C2P2HtMJhPkWjQ2adKerkdVilXmRL',
    object: 'chat.completion.chunk',
    created: 1_754_688_929,
    model: 'large-2024-08-06',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
    obfuscation: String(at % 10).repeat(8),
  };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

const cases: Readonly<Record<string, (at: number) => object>> = {
  'clean text': (at) => ({ content: ` word${at}` }),
  'clean tool arguments': (at) => ({
    tool_calls: [{ index: 0, function: { arguments: `{"a":${at}` } }],
  }),
  'renamed reasoning': (at) => ({ reasoning_content: ` word${at}` }),
  'removed empty tool calls': (at) => ({ content: ` word${at}`, tool_calls: [] }),
};

/** Splits a stream into chunks of `size` characters, as a network would. */
function split(text: string, size: number): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
    text.slice(index * size, (index + 1) * size),
  );
}

function microsecondsPerEvent(work: () => void): number {
  work();
  const startedAt = performance.now();
  for (let round = 0; round < streams; round += 1) work();
  return ((performance.now() - startedAt) * 1000) / (streams * eventsPerStream);
}

function print(name: string, microseconds: number): void {
  process.stdout.write(`${name.padEnd(50)} ${microseconds.toFixed(2)} µs per event\n`);
}

const clean = Array.from({ length: eventsPerStream }, (_, index) =>
  chunkOf({ content: ' a' }, index),
);
const pushes = {
  'reader, one event per push': clean,
  'reader, 16 KiB per push': split(clean.join(''), 16_384),
  'reader, half an event per push': split(clean.join(''), 101),
};
for (const [name, texts] of Object.entries(pushes)) {
  const read = () => {
    const reader = new EventStreamReader();
    for (const text of texts) reader.push(text);
  };
  print(name, microsecondsPerEvent(read));
}

for (const [name, deltaOf] of Object.entries(cases)) {
  const texts = Array.from({ length: eventsPerStream }, (_, index) =>
    chunkOf(deltaOf(index), index),
  );
  const forwardAll = () => {
    const reader = new EventStreamReader();
    const passThrough = new OpenAiPassThrough(identity, { includeUsage: true });
    for (const text of texts) {
      for (const message of reader.push(text)) passThrough.push(message);
    }
  };
  print(`reader and pass-through, ${name}`, microsecondsPerEvent(forwardAll));
}
