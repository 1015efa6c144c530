/**
 * Perplexity and xAI list the sources of an answer next to it. Every client gets them where its
 * format has citations.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { framesOf, parseData } from '../support/stream-checks/events.ts';
import { checkAnthropicStream, checkOpenAiStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const provider = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'key' };
  gateway = await InProcessGateway.start({
    providers: { engine: provider },
    models: [chatModel('test/sonar', [{ provider: 'engine', model: 'sonar' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const read = (name: string) =>
  readFileSync(new URL(`../../fixtures/written/${name}`, import.meta.url), 'utf8');
const messages = [{ role: 'user', content: 'Hello' }];
const bodies: Record<string, object> = {
  '/v1/chat/completions': { messages },
  '/v1/messages': { messages, max_tokens: 50 },
  '/v1/responses': { input: 'Hello' },
};

async function answerTo(path: string, answer: string, stream: boolean) {
  const contentType = stream ? 'text/event-stream' : 'application/json';
  upstream.script('sonar', replay(answer, { contentType }));
  const reply = await gateway.post({ model: 'test/sonar', stream, ...bodies[path] }, { path });
  expect(reply.status).toBe(200);
  return reply;
}

const pageA = { url: 'https://www.example.com/a', title: 'A' };
const chatCitation = (source: object) => ({
  type: 'url_citation',
  url_citation: { ...source, start_index: 0, end_index: 0 },
});

describe('the sources of a provider', () => {
  test("are annotations for a chat client, and the provider's own fields stay", async () => {
    const { json } = await answerTo('/v1/chat/completions', read('perplexity-sonar.json'), false);
    expect(json).toMatchObject({
      choices: [{ message: { annotations: [chatCitation(pageA)] } }],
      citations: [pageA.url],
    });
    const { text } = await answerTo('/v1/chat/completions', read('perplexity-stream.sse'), true);
    checkOpenAiStream(text);
    const deltas = framesOf(text)
      .filter(({ data }) => data.startsWith('{'))
      .flatMap(({ data }) => parseData(data).choices as { delta: { annotations?: object[] } }[]);
    expect(deltas.flatMap(({ delta }) => delta.annotations ?? [])).toEqual([chatCitation(pageA)]);
  });

  test('are citations of the text for a Messages client', async () => {
    const cited = { type: 'web_search_result_location', ...pageA, cited_text: '' };
    const { json } = await answerTo('/v1/messages', read('perplexity-sonar.json'), false);
    expect(json.content).toMatchObject([{ type: 'text', citations: [cited] }]);
    const { text } = await answerTo('/v1/messages', read('perplexity-stream.sse'), true);
    expect(checkAnthropicStream(text).citations).toMatchObject([cited]);
  });

  test('are annotations of the text for a Responses client', async () => {
    const annotation = { type: 'url_citation', ...pageA, start_index: 0, end_index: 9 };
    const output = [{ type: 'message', content: [{ annotations: [annotation] }] }];
    const { json } = await answerTo('/v1/responses', read('perplexity-sonar.json'), false);
    expect(json.output).toMatchObject(output);
    const { text } = await answerTo('/v1/responses', read('perplexity-stream.sse'), true);
    expect(parseData(framesOf(text).at(-1)?.data ?? '')).toMatchObject({ response: { output } });
  });

  test('are read from addresses alone, with the snippets of search results as quotes', async () => {
    const { text } = await answerTo(
      '/v1/messages',
      read('xai-reasoning-citations-stream.sse'),
      true,
    );
    expect(checkAnthropicStream(text).citations).toMatchObject([
      { url: 'https://example.org/weather', title: '' },
    ]);
    const body = {
      choices: [{ message: { content: 'Paris.' }, finish_reason: 'stop' }],
      search_results: [{ ...pageA, snippet: 'It is Paris.' }, { url: 'file:///a' }, null],
      citations: ['https://www.example.com/b', 7],
    };
    const { json } = await answerTo('/v1/messages', JSON.stringify(body), false);
    expect(json.content).toMatchObject([
      { citations: [{ url: pageA.url, cited_text: 'It is Paris.' }] },
    ]);
  });

  test('are not repeated if the answer has annotations of its own', async () => {
    const annotations = [chatCitation({ url: 'https://www.example.com/own', title: 'Own' })];
    const body = {
      choices: [{ message: { content: 'Paris.', annotations }, finish_reason: 'stop' }],
      citations: [pageA.url],
    };
    const { json } = await answerTo('/v1/chat/completions', JSON.stringify(body), false);
    expect(json.choices).toMatchObject([{ message: { annotations } }]);
  });
});
