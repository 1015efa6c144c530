/** Servers of the Responses interface that say less than OpenAI, before strict clients. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import OpenAI from 'openai';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const answers = {
    dialect: 'openai-responses',
    base_url: `${upstream.url}/v1`,
    api_key: 'upstream-key',
  };
  const endpoints = [{ provider: 'answers', model: 'responses-up' }];
  gateway = await InProcessGateway.start({
    providers: { answers },
    models: [chatModel('acme/responses', endpoints)],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

test("a message that begins without a content does not break OpenAI's SDK", async () => {
  const begun = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress' };
  const part = { type: 'output_text', text: '', annotations: [] };
  const whole = { ...begun, status: 'completed', content: [{ ...part, text: 'Hi' }] };
  const at = { output_index: 0, content_index: 0, item_id: 'msg_1' };
  const usage = { input_tokens: 5, output_tokens: 5, total_tokens: 10 };
  const response = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] };
  const events = [
    { type: 'response.created', response },
    { type: 'response.output_item.added', output_index: 0, item: begun },
    { type: 'response.content_part.added', ...at, part },
    { type: 'response.output_text.delta', ...at, delta: 'Hi' },
    { type: 'response.output_item.done', output_index: 0, item: whole },
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: [whole], usage },
    },
  ];
  const lines = events.map((event, number) => {
    const data = JSON.stringify({ ...event, sequence_number: number });
    return `event: ${event.type}\ndata: ${data}\n\n`;
  });
  upstream.script('responses-up', replay(lines.join(''), { contentType: 'text/event-stream' }));

  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.keys.routing });
  const stream = client.responses.stream({ model: 'acme/responses', input: 'hello' });
  let heard = '';
  stream.on('response.output_text.delta', ({ snapshot }) => {
    heard = snapshot;
  });
  expect((await stream.finalResponse()).output_text).toBe('Hi');
  expect(heard).toBe('Hi');
});
