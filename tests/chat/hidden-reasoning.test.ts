/** OpenAI clients may ask not to see thoughts: whoever answers, in every form, and given again. */
import { describe, expect, test } from 'bun:test';
import type { DialectName } from '../../src/config/provider-schema.ts';
import { noUsage } from '../../src/core/usage.ts';
import type { ClientRequest } from '../../src/dialects/dialect.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { ChatOperation } from '../../src/operations/chat/chat-operation.ts';
import { identity } from '../support/reply-identity.ts';
import { seeOpenAi } from '../support/seen-answer.ts';
import { readExpectations, readFixture } from '../support/upstream-conformance.ts';

const asked = { model: 'acme/thinker', messages: [{ role: 'user', content: 'Hello!' }] };

function source(body: object) {
  const text = JSON.stringify(body);
  return { text, bytes: new TextEncoder().encode(text) };
}

function openAi(stream: boolean): ClientRequest {
  const body = { ...asked, stream, reasoning: { exclude: true } };
  return openAiClientRequest(readChatRequest(body, source(body)));
}

const dialects: readonly DialectName[] = ['openai', 'anthropic', 'gemini'];

describe('a client that asked for it', () => {
  for (const dialect of dialects) {
    const thoughtful = readExpectations(dialect).filter(
      ({ expected }) => expected.reasoning && !expected.error,
    );
    test(`there are recordings of ${dialect}`, () => expect(thoughtful).not.toBeEmpty());
    const cases = thoughtful.flatMap((one) => [true, false].map((stream) => ({ ...one, stream })));
    for (const { path, expected, stream } of cases) {
      test(`sees no thought of ${path}, ${stream ? 'streamed' : 'whole'}`, () => {
        const form = expected.stream ? 'stream' : 'whole';
        const about = { model: 'acme/thinker', provider: 'acme' } as const;
        const recording = { dialect, form, text: readFixture(path), ...about } as const;
        const relay = new ChatOperation(openAi(stream)).replay(recording, identity);
        const output =
          relay?.write({ usage: relay.metrics.usage ?? noUsage, costCredits: 0 }) ?? '';
        const seen = seeOpenAi(output, stream);
        expect([seen.text, seen.reasoning]).toEqual([expected.text, '']);
        expect(seen.calls).toHaveLength(expected.tool_calls.length);
        const unseen = expected.text.length + expected.reasoning.length;
        expect(relay?.metrics.outputCharacters).toBeGreaterThanOrEqual(unseen);
      });
    }
  }
});
