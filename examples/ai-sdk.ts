/**
 * Calls Tollgate with the AI SDK and its OpenAI-compatible provider. Set TOLLGATE_KEY to a routing
 * key (sk-tg-…) and run `npx bun examples/ai-sdk.ts`.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';

const { TOLLGATE_URL = 'http://127.0.0.1:8080', TOLLGATE_KEY = '' } = process.env;
const tollgate = createOpenAICompatible({
  name: 'tollgate',
  baseURL: `${TOLLGATE_URL}/v1`,
  apiKey: TOLLGATE_KEY,
  includeUsage: true,
});

const answer = streamText({ model: tollgate('demo/chat'), prompt: 'Hello!' });

for await (const text of answer.textStream) process.stdout.write(text);
process.stdout.write(`\n${(await answer.usage).totalTokens} tokens\n`);
