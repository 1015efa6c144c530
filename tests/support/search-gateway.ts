/**
 * A gateway with web search, a fake upstream for two dialects, and a fake search engine. An input
 * token costs 1 credit, an output token 2 credits, and a search 5,000 credits.
 */
import { isObject } from '../../src/core/json.ts';
import { callTools, chatAnswer, startFakeUpstream } from './fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from './in-process.ts';
import { startSearchServer } from './search-server.ts';

export const tokens = (prompt: number, completion: number) => ({ usage: { prompt, completion } });

/** A round that searches. It costs 100 + 2 × 10 credits. */
export const searchRound = (...queries: string[]) =>
  callTools(
    queries.map((query, index) => ({
      name: 'web_search',
      arguments: { query },
      id: `call_ws_${index}`,
    })),
    tokens(100, 10),
  );

/** A round that answers. It costs 300 + 2 × 20 credits. */
export const answerRound = (text: string) => chatAnswer(text, tokens(300, 20));

export const news = { title: 'The news', url: 'https://news.example/today', snippet: 'It rained.' };

export const weather = [{ role: 'user', content: 'What is the weather?' }];

export function chat(fields: object = {}) {
  return { model: 'test/chat', messages: weather, tools: [{ type: 'web_search' }], ...fields };
}

export async function startSearchGateway(
  search: object = {},
  prices: object = {},
  billing: object = {},
) {
  const upstream = startFakeUpstream();
  const engine = startSearchServer();
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const pricing = { prompt: '1', completion: '2', ...prices };
  const small = { context_length: 8_000, max_completion_tokens: 4_000 };
  const gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    billing: { byok_fee_basis_points: 1_000, ...billing },
    providers: { first: fake, claude: { ...fake, dialect: 'anthropic' } },
    models: [
      chatModel('test/chat', [{ provider: 'first', model: 'chat', pricing }]),
      chatModel('test/claude', [{ provider: 'claude', model: 'chat', pricing }]),
      chatModel('test/small', [{ provider: 'first', model: 'chat', pricing }], small),
    ],
    tools: {
      web_search: {
        engine: 'searxng',
        url: engine.url,
        usd_per_search: '0.005',
        calls_max: 3,
        ...search,
      },
    },
  });
  return {
    upstream,
    engine,
    gateway,
    reset() {
      upstream.reset();
      engine.reset();
      engine.answer([news]);
    },
    async stop() {
      await gateway.stop();
      upstream.stop();
      await engine.stop();
    },
    /** Returns the request to the model in this round. */
    sentIn(round: number): Record<string, unknown> {
      const json = upstream.requests[round]?.json;
      if (isObject(json)) return json;
      throw new Error(`Round ${round} did not happen.`);
    },
    /** Returns the last request to the model, as text. */
    lastPrompt: () => JSON.stringify(upstream.requests.at(-1)?.json),
    async bill({ requestId }: { requestId: string }) {
      const { charges, searches } = await gateway.record(requestId);
      const { modelCharge: model, byokPlatformFee: byok, managedToolFee: tool } = charges;
      return { model, byok, tool, searches };
    },
  };
}

export type SearchGateway = Awaited<ReturnType<typeof startSearchGateway>>;

/** Returns the only choice of a non-streaming reply. */
export function choiceOf({ json }: Reply): Record<string, unknown> & { message: Message } {
  const [choice] = Array.isArray(json.choices) ? json.choices : [];
  if (isObject(choice) && isObject(choice.message)) return choice as never;
  throw new Error(`The reply has no choice: ${JSON.stringify(json)}`);
}

interface Message extends Record<string, unknown> {
  readonly content: string | null;
  readonly annotations?: readonly { url_citation: Record<string, unknown> }[];
}
