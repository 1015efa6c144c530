/** `reasoning.exclude` hides the reasoning of every recorded answer, and of its replays. */
import { describe, expect, test } from 'bun:test';
import type { DialectName } from '../../src/config/provider-schema.ts';
import { noUsage } from '../../src/core/usage.ts';
import type { ClientRequest } from '../../src/dialects/dialect.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { ChatOperation } from '../../src/operations/chat/chat-operation.ts';
import { readOpenAiAnswer } from '../support/client-answers.ts';
import { identity } from '../support/reply-identity.ts';
import { readExpectations, readFixture } from '../support/upstream-conformance.ts';

const chat = { model: 'acme/thinker', messages: [{ role: 'user', content: 'Hello!' }] };

function rawBody(body: object) {
  const text = JSON.stringify(body);
  return { text, bytes: new TextEncoder().encode(text) };
}

function requestWithoutReasoning(stream: boolean): ClientRequest {
  const body = { ...chat, stream, reasoning: { exclude: true } };
  return openAiClientRequest(readChatRequest(body, rawBody(body)));
}

const dialects: readonly DialectName[] = ['openai', 'anthropic', 'gemini'];

describe('reasoning.exclude', () => {
  for (const dialect of dialects) {
    const recordings = readExpectations(dialect).filter(
      ({ expected }) => expected.reasoning && !expected.error,
    );
    test(`is tested with recordings of ${dialect}`, () => expect(recordings).not.toBeEmpty());
    const cases = recordings.flatMap((recording) =>
      [true, false].map((stream) => ({ ...recording, stream })),
    );
    for (const { path, expected, stream } of cases) {
      test(`hides the reasoning of ${path}, ${stream ? 'streamed' : 'not streamed'}`, () => {
        const form = expected.stream ? 'stream' : 'reply';
        const source = { model: 'acme/thinker', provider: 'acme' } as const;
        const recording = { dialect, form, text: readFixture(path), ...source } as const;
        const replay = new ChatOperation(requestWithoutReasoning(stream)).replay(
          recording,
          identity,
        );
        const output =
          replay?.write({ usage: replay.metrics.usage ?? noUsage, costCredits: 0 }) ?? '';
        const seen = readOpenAiAnswer(output, stream);
        expect([seen.text, seen.reasoning]).toEqual([expected.text, '']);
        expect(seen.calls).toHaveLength(expected.tool_calls.length);
        const charactersMin = expected.text.length + expected.reasoning.length;
        expect(replay?.metrics.outputCharacters).toBeGreaterThanOrEqual(charactersMin);
      });
    }
  }
});
