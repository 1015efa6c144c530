/** Tests the Responses API with OpenAI's SDK. */
import { describe, expect, test } from 'bun:test';
import OpenAI, { APIError } from 'openai';
import { makeParseableTextFormat } from 'openai/lib/parser';
import type {
  ResponseInput,
  ResponseInputItem,
  ResponseStreamEvent,
  Tool,
} from 'openai/resources/responses/responses';
import { callTools, chatAnswer, errorInside200 } from '../support/fake-upstream.ts';
import {
  fieldOf,
  modelId,
  onePixel,
  rejectionOf,
  upstreamModel,
  useSdkGateway,
} from '../support/sdk-gateway.ts';

const sdk = await useSdkGateway();
const client = new OpenAI(sdk.openAiOptions);

const weather: Tool = {
  type: 'function',
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
};

const eventsOf = (stream: AsyncIterable<ResponseStreamEvent>) => Array.fromAsync(stream);

describe('responses.create of the OpenAI SDK', () => {
  test('returns text, our model names, usage, and the cost in credits', async () => {
    const usage = { prompt: 30, completion: 5 };
    sdk.upstream.script(upstreamModel, chatAnswer('Fine, thanks', { usage, cachedTokens: 10 }));
    const response = await client.responses.create({
      model: modelId,
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
    // 1 credit per input token and 2 per output token.
    expect(fieldOf(response.usage, 'cost')).toBe(40);
    const [byRequest, byId] = [response._request_id, response.id];
    expect(await sdk.generation(byId)).toMatchObject({ id: byRequest ?? '', total_cost: 40 });
    expect(sdk.lastBody.messages).toEqual([
      { role: 'system', content: 'Be polite.' },
      { role: 'user', content: 'how are you' },
    ]);
  });

  test('sends images and earlier output', async () => {
    const first = await client.responses.create({ model: modelId, input: 'Hi' });
    const imageUrl = `data:image/png;base64,${onePixel}`;
    const input: ResponseInput = [
      { role: 'user', content: 'Hi' },
      ...(first.output as ResponseInputItem[]),
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'And this?' },
          { type: 'input_image', image_url: imageUrl, detail: 'low' },
        ],
      },
    ];
    await client.responses.create({ model: modelId, input });
    expect(sdk.lastBody.messages).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'ok' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'And this?' },
          { type: 'image_url', image_url: { url: imageUrl, detail: 'low' } },
        ],
      },
    ]);
  });

  test('calls tools and sends their results', async () => {
    const call = { id: 'call_1', name: 'get_weather', arguments: { city: 'Oslo' } };
    sdk.upstream.script(upstreamModel, [callTools([call]), chatAnswer('Rain.')]);
    const input: ResponseInput = [{ role: 'user', content: 'Weather in Oslo?' }];
    const create = () => client.responses.create({ model: modelId, input, tools: [weather] });
    const { output } = await create();
    const calls = output.filter((item) => item.type === 'function_call');
    expect(calls.map(({ name, arguments: json }) => [name, JSON.parse(json)])).toEqual([
      ['get_weather', { city: 'Oslo' }],
    ]);
    input.push(...(output as ResponseInputItem[]));
    for (const { call_id } of calls) {
      input.push({ type: 'function_call_output', call_id, output: '4 °C' });
    }
    expect((await create()).output_text).toBe('Rain.');
    expect(sdk.lastBody.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_1', content: '4 °C' },
    ]);
  });

  test('reports which field is invalid', async () => {
    const error = await rejectionOf(
      client.responses.create({ model: modelId, input: 'x', temperature: 9 }),
    );
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 400, param: 'temperature' });
    const continued = { model: modelId, input: 'x', previous_response_id: 'resp_1' };
    expect(await rejectionOf(client.responses.create(continued))).toMatchObject({
      status: 400,
      param: 'previous_response_id',
    });
    expect(sdk.upstream.requests).toHaveLength(0);
  });

  test('rejects the retrieval of a response, because responses are not stored', async () => {
    expect(await rejectionOf(client.responses.retrieve('resp_1'))).toMatchObject({
      status: 404,
      message: expect.stringContaining("doesn't store responses"),
    });
  });
});

describe('responses.parse of the OpenAI SDK', () => {
  test('returns structured output', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('{"city":"Oslo"}'));
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
      model: modelId,
      input: 'Where?',
      text: { format },
    });
    expect(parsed.output_parsed).toEqual({ city: 'Oslo' });
    expect(parsed.text).toMatchObject({ format: { name: 'place' } });
    expect(sdk.lastBody.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'place', schema, strict: true },
    });
  });
});

describe('a stream of the Responses API in the OpenAI SDK', () => {
  test('has all events in order, and usage in the last event', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('one two', { reasoning: 'hm' }));
    const stream = await client.responses.create({ model: modelId, input: 'x', stream: true });
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
    expect(events.map(({ sequence_number: number }) => number)).toEqual(
      events.map((_, index) => index),
    );
    const last = events.at(-1);
    if (last?.type !== 'response.completed')
      throw new Error('The stream has no response.completed.');
    expect(last.response.usage).toMatchObject({ output_tokens_details: { reasoning_tokens: 1 } });
  });

  test('can be assembled by the helper, including tool calls', async () => {
    const call = { id: 'call_1', name: 'get_weather', arguments: { city: 'Oslo' } };
    sdk.upstream.script(upstreamModel, callTools([call, { ...call, id: 'call_2' }], { text: 'I' }));
    const stream = client.responses.stream({ model: modelId, input: 'x', tools: [weather] });
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => {
      text += delta;
    });
    const response = await stream.finalResponse();
    expect(text).toBe('I');
    expect(response.output.map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call',
    ]);
    expect(response.output[2]).toMatchObject({ call_id: 'call_2', arguments: '{"city":"Oslo"}' });
  });

  test('throws an error if it fails in the middle', async () => {
    sdk.upstream.script(upstreamModel, errorInside200(3));
    const stream = await client.responses.create({ model: modelId, input: 'x', stream: true });
    const types: string[] = [];
    const read = async () => {
      for await (const { type } of stream) types.push(type);
    };
    const error = await rejectionOf(read());
    expect(error).toBeInstanceOf(APIError);
    expect(String(error)).toContain('The provider failed in the middle of its response');
    expect(types).toContain('response.output_text.delta');
    expect(types).not.toContain('response.completed');
  });

  test('works with the demo model', async () => {
    const stream = client.responses.stream({ model: 'demo/chat', input: 'Hello!' });
    const { output_text: text, status } = await stream.finalResponse();
    expect([status, text]).toEqual(['completed', expect.stringContaining('Hello!')]);
  });
});
