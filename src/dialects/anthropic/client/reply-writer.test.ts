import { expect, test } from 'bun:test';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { fieldsOf, objectsIn, parseJson } from '../../../core/json.ts';
import { noUsage } from '../../../core/usage.ts';
import type { ReplyWriter } from '../../dialect.ts';
import { anthropicClient } from '../client-request.ts';

/** Returns the block types of an answer that consists of the given events. */
function blocks(write: (to: ReplyWriter) => void): unknown[] {
  const writer = anthropicClient({ inputTokensEstimate: 12 }).writeReply(identity);
  write(writer);
  writer.finish('stop', null);
  const message = fieldsOf(parseJson(writer.write({ usage: noUsage, costCredits: 9 })));
  return objectsIn(message.content).map(({ type }) => type);
}

const writeSignedText = (to: ReplyWriter) => {
  to.text('Yes');
  to.reasoningSignature('gemini:sig-1');
};

test('AnthropicReplyWriter drops a trailing signature, but keeps one before more blocks', () => {
  expect(blocks(writeSignedText)).toEqual(['text']);
  const writeCall = (to: ReplyWriter) => {
    writeSignedText(to);
    to.toolCall(0, 'a', 'look');
  };
  expect(blocks(writeCall)).toEqual(['text', 'thinking', 'tool_use']);
});

test('AnthropicReplyWriter keeps trailing thinking, and a signature if there is no text', () => {
  const writeThinking = (to: ReplyWriter) => {
    to.text('Yes');
    to.reasoning('But');
    to.reasoningSignature('gemini:sig-1');
  };
  expect(blocks(writeThinking)).toEqual(['text', 'thinking']);
  expect(blocks((to) => to.reasoningSignature('gemini:sig-1'))).toEqual(['thinking']);
});
