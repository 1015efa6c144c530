/**
 * Replaces, removes, or repeats each value of recorded answers, one value at a time. A reader must
 * not throw, and must not emit events in an invalid order. `RecordingSink` throws if it does.
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

const oddValues: readonly unknown[] = [null, 3, -1, '', 'odd', true, [], [null], {}, { a: [{}] }];

/** Yields copies of the value with each part in turn replaced by an odd value or removed. */
function* corrupt(value: unknown): Iterable<unknown> {
  yield* oddValues;
  if (typeof value !== 'object' || value === null) return;
  const entries = Object.entries(value);
  for (const [name, part] of entries) {
    for (const corrupted of corrupt(part)) {
      if (Array.isArray(value)) yield value.with(Number(name), corrupted);
      else yield { ...value, [name]: corrupted };
    }
    if (!Array.isArray(value)) yield Object.fromEntries(entries.filter(([key]) => key !== name));
  }
}

function* corruptStream(messages: readonly SseMessage[]): Iterable<readonly SseMessage[]> {
  for (const [index, message] of messages.entries()) {
    for (const corrupted of corrupt(JSON.parse(message.data))) {
      yield messages.with(index, { event: message.event, data: JSON.stringify(corrupted) });
    }
    yield messages.toSpliced(index, 1);
    yield messages.toSpliced(index, 0, message);
  }
}

/** Returns undefined if the answer is rejected as malformed. */
function unlessMalformed<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof MalformedAnswer) return undefined;
    throw error;
  }
}

function expectConsistent(upstream: UpstreamDialect, raw: string): void {
  let tried = 0;
  for (const messages of corruptStream(messagesOf(raw))) {
    tried += 1;
    const result = unlessMalformed(() => readMessages(upstream, messages));
    if (!result) continue;
    const { failure, finished, sink } = result;
    // A failed answer is never finished, and a finished answer always has a finish reason.
    if (failure !== undefined && finished) throw new Error('complete and failed');
    if (finished !== (sink.finishReason !== null)) throw new Error('finished without a reason');
  }
  expect(tried).toBeGreaterThan(100);
}

const gemini = readExpectations('gemini');
const responses = readExpectations('openai-responses');
const timeoutMs = 120_000;

test.each(gemini.filter(({ expected }) => expected.stream))(
  'reads a corrupted Gemini stream without unexpected errors: $path',
  ({ path }) => expectConsistent(geminiUpstream, readFixture(path)),
  timeoutMs,
);

test.each(responses)(
  'reads a corrupted Responses stream without unexpected errors: $path',
  ({ path, expected }) => {
    const raw = readFixture(path);
    const stream = expected.stream ? raw : streamOf(JSON.parse(raw) as FullResponse);
    expectConsistent(responsesUpstream, stream);
  },
  timeoutMs,
);

test.each(
  [
    ...gemini.map((one) => ({ ...one, upstream: geminiUpstream })),
    ...responses.map((one) => ({ ...one, upstream: responsesUpstream })),
  ].filter(({ expected }) => !expected.stream),
)(
  'reads a corrupted non-streaming answer without unexpected errors: $path',
  ({ path, upstream }) => {
    for (const corrupted of corrupt(JSON.parse(readFixture(path)))) {
      const sink = new RecordingSink();
      const result = unlessMalformed(() => ({
        failure: upstream.readReply(JSON.stringify(corrupted), sink),
      }));
      if (result && (result.failure === undefined) !== (sink.finishReason !== null)) {
        throw new Error(`neither an answer nor a failure: ${JSON.stringify(corrupted)}`);
      }
    }
  },
  timeoutMs,
);
