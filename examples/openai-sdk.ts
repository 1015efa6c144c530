/**
 * Calls Tollgate with the OpenAI SDK. Only the base URL and the key differ. Set TOLLGATE_KEY to a
 * routing key (sk-tg-…) and run `npx bun examples/openai-sdk.ts`.
 */
import OpenAI from 'openai';

const { TOLLGATE_URL = 'http://127.0.0.1:8080', TOLLGATE_KEY = '' } = process.env;
const client = new OpenAI({ baseURL: `${TOLLGATE_URL}/v1`, apiKey: TOLLGATE_KEY });

const stream = await client.chat.completions.create({
  model: 'demo/chat',
  messages: [{ role: 'user', content: 'Hello!' }],
  stream: true,
  stream_options: { include_usage: true },
});

for await (const { choices, usage } of stream) {
  process.stdout.write(choices[0]?.delta.content ?? '');
  if (usage) process.stdout.write(`\n${usage.total_tokens} tokens\n`);
}
