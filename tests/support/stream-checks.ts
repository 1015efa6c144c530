/**
 * Checks that a stream is one that clients of its format can read, and says what it says. Knows
 * nothing of the gateway's code, so that the two can disagree.
 *
 *   const seen = checkAnthropicStream(await response.text());
 *   expect(seen).toMatchObject({ ended: 'whole', text: 'Hello', stopReason: 'end_turn' });
 */

export { type AnthropicSeen, checkAnthropicStream } from './stream-checks/anthropic.ts';
export { checkOpenAiStream, type OpenAiSeen } from './stream-checks/openai.ts';
export { checkResponsesStream, type ResponsesSeen } from './stream-checks/responses.ts';
