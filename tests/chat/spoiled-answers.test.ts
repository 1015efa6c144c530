/**
 * Recorded answers with one place spoiled, every place in turn: a reader must neither throw nor
 * tell words in an order that no client could follow (`ToldAnswer` throws then).
 */
import { expect, test } from 'bun:test';
import type { SseMessage, UpstreamDialect } from '../../src/dialects/dialect.ts';
import { MalformedAnswer } from '../../src/dialects/failure.ts';
import { geminiUpstream } from '../../src/dialects/gemini/upstream/upstream.ts';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import { RecordingSink } from '../support/recording-sink.ts';
import { type FullResponse, streamOf } from '../support/response-events.ts';
import {
  messagesOf,
  readExpectations,
  readFixture,
  readMessages,
} from '../support/upstream-conformance.ts';

const oddities: readonly unknown[] = [null, 3, -1, '', 'odd', true, [], [null], {}, { a: [{}] }];

/** The value with one place replaced by something odd, for every place and oddity. */
function* spoil(value: unknown): Iterable<unknown> {
  yield* oddities;
  if (typeof value !== 'object' || value === null) return;
  const entries = Object.entries(value);
  for (const [name, part] of entries) {
    for (const spoiled of spoil(part)) {
      if (Array.isArray(value)) yield value.with(Number(name), spoiled);
      else yield { ...value, [name]: spoiled };
    }
    if (!Array.isArray(value)) yield Object.fromEntries(entries.filter(([key]) => key !== name));
  }
}

function* spoilStream(messages: readonly SseMessage[]): Iterable<readonly SseMessage[]> {
  for (const [at, message] of messages.entries()) {
    for (const spoiled of spoil(JSON.parse(message.data))) {
      yield messages.with(at, { event: message.event, data: JSON.stringify(spoiled) });
    }
    yield messages.toSpliced(at, 1);
    yield messages.toSpliced(at, 0, message);
  }
}

/** Undefined where a listener refuses what the reader tells: the answer fails then. */
function unlessUnusable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof MalformedAnswer) return undefined;
    throw error;
  }
}

function expectNoHarm(upstream: UpstreamDialect, raw: string): void {
  let tried = 0;
  for (const messages of spoilStream(messagesOf(raw))) {
    tried += 1;
    const heard = unlessUnusable(() => readMessages(upstream, messages));
    if (!heard) continue;
    const { failure, finished, sink } = heard;
    // Nothing is complete that failed, and nothing ends without having said so.
    if (failure !== undefined && finished) throw new Error('complete and failed');
    if (finished !== (sink.finishReason !== null)) throw new Error('finished without a reason');
  }
  expect(tried).toBeGreaterThan(100);
}

const gemini = readExpectations('gemini');
const responses = readExpectations('openai-responses');
const timeoutMs = 120_000;

test.each(gemini.filter(({ expected }) => expected.stream))(
  'a stream of Gemini: $path',
  ({ path }) => expectNoHarm(geminiUpstream, readFixture(path)),
  timeoutMs,
);

test.each(responses)(
  'a stream of the Responses endpoint: $path',
  ({ path, expected }) => {
    const raw = readFixture(path);
    const stream = expected.stream ? raw : streamOf(JSON.parse(raw) as FullResponse);
    expectNoHarm(responsesUpstream, stream);
  },
  timeoutMs,
);

test.each(
  [
    ...gemini.map((one) => ({ ...one, upstream: geminiUpstream })),
    ...responses.map((one) => ({ ...one, upstream: responsesUpstream })),
  ].filter(({ expected }) => !expected.stream),
)(
  'a whole answer: $path',
  ({ path, upstream }) => {
    for (const spoiled of spoil(JSON.parse(readFixture(path)))) {
      const sink = new RecordingSink();
      const heard = unlessUnusable(() => ({
        failure: upstream.readReply(JSON.stringify(spoiled), sink),
      }));
      if (heard && (heard.failure === undefined) !== (sink.finishReason !== null)) {
        throw new Error(`neither an answer nor a failure: ${JSON.stringify(spoiled)}`);
      }
    }
  },
  timeoutMs,
);
