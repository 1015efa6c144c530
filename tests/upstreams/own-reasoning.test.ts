/** A model of the operator's own that reasons, as its `features` say, and says no more about it. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base_url = `${upstream.url}/v1`;
  const endpoints = [{ provider: 'answers', model: 'ans-up' }];
  gateway = await InProcessGateway.start({
    providers: { answers: { dialect: 'openai-responses', base_url, api_key: 'answers-key' } },
    models: [
      chatModel('acme/thinker', endpoints),
      chatModel('acme/talker', endpoints, { features: ['tools'] }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

/** What a provider of OpenAI's Responses is asked for by a client of each kind. */
async function askedFor(model: string, path: string): Promise<unknown[]> {
  upstream.script('ans-up', replay(readFixture('openai/responses-tool-final.json')));
  const effort = { reasoning: { effort: 'low' } };
  const body = path.includes('responses')
    ? { model, input: 'Think.', ...effort }
    : { model, messages: [{ role: 'user', content: 'Think.' }], ...effort };
  const reply = await gateway.post(body, { path });
  expect(reply.status).toBe(200);
  const sent = upstream.book[0]?.json as { reasoning?: { effort?: string }; include?: string[] };
  return [sent.reasoning?.effort, sent.include];
}

const paths = ['/v1/chat/completions', '/v1/responses'];

test.each(paths)('is asked for the effort that a client wants: %s', async (path) => {
  expect(await askedFor('acme/thinker', path)).toEqual(['low', ['reasoning.encrypted_content']]);
});

test.each(paths)('is not where its features do not say so: %s', async (path) => {
  expect(await askedFor('acme/talker', path)).toEqual([undefined, undefined]);
});
