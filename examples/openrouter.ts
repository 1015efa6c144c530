/**
 * Calls Tollgate with OpenRouter's provider for the AI SDK. Below `/api/v1`, every answer ends with
 * its cost, because OpenRouter's clients expect that. Set TOLLGATE_KEY to a routing key (sk-tg-…)
 * and run `npx bun examples/openrouter.ts`.
 */
import { createOpenRouter } from '@openrouter/ai-sdk-provider';
import { streamText } from 'ai';

const { TOLLGATE_URL = 'http://127.0.0.1:8080', TOLLGATE_KEY = '' } = process.env;
const tollgate = createOpenRouter({ baseURL: `${TOLLGATE_URL}/api/v1`, apiKey: TOLLGATE_KEY });

const answer = streamText({ model: tollgate.chat('demo/chat'), prompt: 'Hello!' });

for await (const text of answer.textStream) process.stdout.write(text);
process.stdout.write(`\n${(await answer.usage).totalTokens} tokens\n`);
