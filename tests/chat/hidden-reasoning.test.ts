/** OpenAI clients may ask not to see thoughts: whoever answers, in every form, and given again. */
import { describe, expect, test } from 'bun:test';
import type { DialectName } from '../../src/config/provider-schema.ts';
import { noUsage } from '../../src/core/usage.ts';
import type { Conversation } from '../../src/dialects/dialect.ts';
import { readChatRequest } from '../../src/dialects/openai/chat-request.ts';
import { openAiConversation } from '../../src/dialects/openai/conversation.ts';
import { ChatErrand } from '../../src/operations/chat.ts';
import { identity } from '../support/reply-identity.ts';
import { seeOpenAi } from '../support/seen-answer.ts';
import { readExpectations, readFixture } from '../support/upstream-conformance.ts';

const asked = { model: 'acme/thinker', messages: [{ role: 'user', content: 'Hello!' }] };

function source(body: object) {
  const text = JSON.stringify(body);
  return { text, bytes: new TextEncoder().encode(text) };
}

function openAi(stream: boolean): Conversation {
  const body = { ...asked, stream, reasoning: { exclude: true } };
  return openAiConversation(readChatRequest(body, source(body)));
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
        const relay = new ChatErrand(openAi(stream)).replay(recording, identity);
        const output = relay?.write({ usage: relay.facts.usage ?? noUsage, costCredits: 0 }) ?? '';
        const seen = seeOpenAi(output, stream);
        expect([seen.text, seen.reasoning]).toEqual([expected.text, '']);
        expect(seen.calls).toHaveLength(expected.tool_calls.length);
        const unseen = expected.text.length + expected.reasoning.length;
        expect(relay?.facts.outputCharacters).toBeGreaterThanOrEqual(unseen);
      });
    }
  }
});
