/** What an application sees that was written for OpenAI's Responses API. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import OpenAI, { APIError } from 'openai';
import { makeParseableTextFormat } from 'openai/lib/parser';
import type {
  ResponseInput,
  ResponseInputItem,
  ResponseStreamEvent,
  Tool,
} from 'openai/resources/responses/responses';
import { callTools, chatAnswer, errorInside200 } from '../support/fake-upstream.ts';
import { failure, fieldOf, onePixel, Rig, upstreamModel } from './rig.ts';

let rig: Rig;
let client: OpenAI;

beforeAll(async () => {
  rig = await Rig.start();
  client = new OpenAI({ apiKey: rig.apiKey, baseURL: `${rig.gateway.url}/v1`, maxRetries: 0 });
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

const weather: Tool = {
  type: 'function',
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
};

const eventsOf = (stream: AsyncIterable<ResponseStreamEvent>) => Array.fromAsync(stream);

describe('client.responses.create', () => {
  test('answers with text, our names, the usage and what it cost in credits', async () => {
    const usage = { prompt: 30, completion: 5 };
    rig.upstream.script(upstreamModel, chatAnswer('Fine, thanks', { usage, cachedTokens: 10 }));
    const response = await client.responses.create({
      model: rig.model,
      input: 'how are you',
      instructions: 'Be polite.',
    });
    expect(response.output_text).toBe('Fine, thanks');
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      model: 'acme/large',
      instructions: 'Be polite.',
      error: null,
      usage: {
        input_tokens: 30,
        input_tokens_details: { cached_tokens: 10 },
        output_tokens: 5,
        total_tokens: 35,
      },
    });
    // One credit for each token in, two for each out.
    expect(fieldOf(response.usage, 'cost')).toBe(40);
    const [byRequest, byId] = [response._request_id, response.id];
    expect(await rig.generation(byId)).toMatchObject({ id: byRequest ?? '', total_cost: 40 });
    expect(rig.lastBody.messages).toEqual([
      { role: 'system', content: 'Be polite.' },
      { role: 'user', content: 'how are you' },
    ]);
  });

  test('takes pictures, and goes on with what was answered before', async () => {
    const first = await client.responses.create({ model: rig.model, input: 'Hi' });
    const picture = `data:image/png;base64,${onePixel}`;
    const input: ResponseInput = [
      { role: 'user', content: 'Hi' },
      ...(first.output as ResponseInputItem[]),
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'And this?' },
          { type: 'input_image', image_url: picture, detail: 'low' },
        ],
      },
    ];
    await client.responses.create({ model: rig.model, input });
    expect(rig.lastBody.messages).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'ok' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'And this?' },
          { type: 'image_url', image_url: { url: picture, detail: 'low' } },
        ],
      },
    ]);
  });

  test('runs tools in a loop', async () => {
    const call = { id: 'call_1', name: 'get_weather', arguments: { city: 'Oslo' } };
    rig.upstream.script(upstreamModel, [callTools([call]), chatAnswer('Rain.')]);
    const input: ResponseInput = [{ role: 'user', content: 'Weather in Oslo?' }];
    const ask = () => client.responses.create({ model: rig.model, input, tools: [weather] });
    const { output } = await ask();
    const calls = output.filter((item) => item.type === 'function_call');
    expect(calls.map(({ name, arguments: json }) => [name, JSON.parse(json)])).toEqual([
      ['get_weather', { city: 'Oslo' }],
    ]);
    input.push(...(output as ResponseInputItem[]));
    for (const { call_id } of calls) {
      input.push({ type: 'function_call_output', call_id, output: '4 °C' });
    }
    expect((await ask()).output_text).toBe('Rain.');
    expect(rig.lastBody.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_1', content: '4 °C' },
    ]);
  });

  test('is refused with the field that is wrong, by name', async () => {
    const asked = client.responses.create({ model: rig.model, input: 'x', temperature: 9 });
    const error = await failure(asked);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 400, param: 'temperature' });
    const earlier = { model: rig.model, input: 'x', previous_response_id: 'resp_1' };
    expect(await failure(client.responses.create(earlier))).toMatchObject({
      status: 400,
      param: 'previous_response_id',
    });
    expect(rig.upstream.requests).toHaveLength(0);
  });

  test('that wants a response of before is told that there is none', async () => {
    expect(await failure(client.responses.retrieve('resp_1'))).toMatchObject({
      status: 404,
      message: expect.stringContaining("doesn't store responses"),
    });
  });
});

describe('client.responses.parse', () => {
  test('has structured output', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('{"city":"Oslo"}'));
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    };
    const format = makeParseableTextFormat(
      { type: 'json_schema', name: 'place', schema, strict: true },
      (text) => JSON.parse(text) as { city: string },
    );
    const parsed = await client.responses.parse({
      model: rig.model,
      input: 'Where?',
      text: { format },
    });
    expect(parsed.output_parsed).toEqual({ city: 'Oslo' });
    expect(parsed.text).toMatchObject({ format: { name: 'place' } });
    expect(rig.lastBody.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'place', schema, strict: true },
    });
  });
});

describe('a stream', () => {
  test('has every event in its order, and usage in the last', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('one two', { reasoning: 'hm' }));
    const stream = await client.responses.create({ model: rig.model, input: 'x', stream: true });
    const events = await eventsOf(stream);
    expect(events.map(({ type }) => type.replace('response.', ''))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'reasoning_summary_part.added',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.done',
      'reasoning_summary_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at));
    const last = events.at(-1);
    if (last?.type !== 'response.completed') throw new Error('It is not complete.');
    expect(last.response.usage).toMatchObject({ output_tokens_details: { reasoning_tokens: 1 } });
  });

  test('is put together by the helper, tools included', async () => {
    const call = { id: 'call_1', name: 'get_weather', arguments: { city: 'Oslo' } };
    rig.upstream.script(upstreamModel, callTools([call, { ...call, id: 'call_2' }], { text: 'I' }));
    const stream = client.responses.stream({ model: rig.model, input: 'x', tools: [weather] });
    let said = '';
    stream.on('response.output_text.delta', ({ delta }) => {
      said += delta;
    });
    const response = await stream.finalResponse();
    expect(said).toBe('I');
    expect(response.output.map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call',
    ]);
    expect(response.output[2]).toMatchObject({ call_id: 'call_2', arguments: '{"city":"Oslo"}' });
  });

  test('that fails in the middle is an error', async () => {
    rig.upstream.script(upstreamModel, errorInside200(3));
    const stream = await client.responses.create({ model: rig.model, input: 'x', stream: true });
    const seen: string[] = [];
    const read = async () => {
      for await (const { type } of stream) seen.push(type);
    };
    const error = await failure(read());
    expect(error).toBeInstanceOf(APIError);
    expect(String(error)).toContain('The provider failed in the middle of its answer');
    expect(seen).toContain('response.output_text.delta');
    expect(seen).not.toContain('response.completed');
  });

  test('of the demo model needs no provider', async () => {
    const stream = client.responses.stream({ model: 'demo/chat', input: 'Hello!' });
    const { output_text: text, status } = await stream.finalResponse();
    expect([status, text]).toEqual(['completed', expect.stringContaining('Hello!')]);
  });
});
