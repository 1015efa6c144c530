// Parses streams, and throws if clients of that format couldn't read them. Uses none of the
// gateway's code, so as not to share bugs with it.
//
//   const reading = checkAnthropicStream(await response.text());
//   expect(reading).toMatchObject({ ended: 'complete', text: 'Hello', stopReason: 'end_turn' });

export { type AnthropicReading, checkAnthropicStream } from './stream-checks/anthropic.ts';
export { checkOpenAiStream, type OpenAiReading } from './stream-checks/openai.ts';
export { checkResponsesStream, type ResponsesReading } from './stream-checks/responses.ts';
