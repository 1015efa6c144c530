/**
 * Checks that a stream is one that clients of its format can read, and says what it says. Knows
 * nothing of the gateway's code, so that the two can disagree.
 *
 *   const seen = checkAnthropicStream(await response.text());
 *   expect(seen).toMatchObject({ ended: 'complete', text: 'Hello', stopReason: 'end_turn' });
 */

export { type AnthropicReading, checkAnthropicStream } from './stream-checks/anthropic.ts';
export { checkOpenAiStream, type OpenAiReading } from './stream-checks/openai.ts';
export { checkResponsesStream, type ResponsesReading } from './stream-checks/responses.ts';
