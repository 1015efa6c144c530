import { expect, test } from 'bun:test';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { fieldsOf, objectsIn, parseJson } from '../../../core/json.ts';
import { noUsage } from '../../../core/usage.ts';
import type { ReplyWriter } from '../../dialect.ts';
import { anthropicClient } from '../client-request.ts';

/** The kinds of the blocks in an answer that is told in some way. */
function blocks(tell: (to: ReplyWriter) => void): unknown[] {
  const writer = anthropicClient({ inputTokensEstimate: 12 }).writeReply(identity);
  tell(writer);
  writer.finish('stop', null);
  const message = fieldsOf(parseJson(writer.write({ usage: noUsage, costCredits: 9 })));
  return objectsIn(message.content).map(({ type }) => type);
}

const proven = (to: ReplyWriter) => {
  to.text('Yes');
  to.reasoningSignature('gemini:sig-1');
};

test('a message ends with its text: its signatures are told only if more blocks follow', () => {
  expect(blocks(proven)).toEqual(['text']);
  const calling = (to: ReplyWriter) => {
    proven(to);
    to.toolCall(0, 'a', 'look');
  };
  expect(blocks(calling)).toEqual(['text', 'thinking', 'tool_use']);
});

test('a thought at the end of a message is told, and so is a signature without words', () => {
  const thinking = (to: ReplyWriter) => {
    to.text('Yes');
    to.reasoning('But');
    to.reasoningSignature('gemini:sig-1');
  };
  expect(blocks(thinking)).toEqual(['text', 'thinking']);
  expect(blocks((to) => to.reasoningSignature('gemini:sig-1'))).toEqual(['thinking']);
});
