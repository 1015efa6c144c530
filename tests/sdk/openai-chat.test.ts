/** Tests chat completions with OpenAI's SDK. */
import { describe, expect, test } from 'bun:test';
import OpenAI from 'openai';
import type { ChatCompletionChunk, ChatCompletionMessageParam } from 'openai/resources';
import {
  callTools,
  chatAnswer,
  echo,
  hangBeforeHeaders,
  hangMidStream,
} from '../support/fake-upstream.ts';
import {
  fieldOf,
  modelId,
  onePixel,
  rejectionOf,
  upstreamModel,
  upstreamSecret,
  useSdkGateway,
} from '../support/sdk-gateway.ts';

const sdk = await useSdkGateway();
const client = new OpenAI(sdk.openAiOptions);

const hello: ChatCompletionMessageParam[] = [{ role: 'user', content: 'how are you' }];

const weatherTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
} as const;

async function allOf(stream: AsyncIterable<ChatCompletionChunk>): Promise<ChatCompletionChunk[]> {
  return Array.fromAsync(stream);
}

function textOf(chunks: readonly ChatCompletionChunk[]): string {
  return chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
}

describe('chat.completions.create of the OpenAI SDK', () => {
  test('returns text, our model names, usage, and the cost in credits', async () => {
    const usage = { prompt: 30, completion: 5 };
    sdk.upstream.script(upstreamModel, chatAnswer('Fine, thanks', { usage, cachedTokens: 10 }));
    const completion = await client.chat.completions.create({ model: modelId, messages: hello });
    expect(completion).toMatchObject({
      object: 'chat.completion',
      model: 'acme/large',
      choices: [{ index: 0, finish_reason: 'stop', message: { content: 'Fine, thanks' } }],
      usage: {
        prompt_tokens: 30,
        completion_tokens: 5,
        total_tokens: 35,
        prompt_tokens_details: { cached_tokens: 10 },
      },
    });
    expect(fieldOf(completion.usage, 'cost')).toBe(30 * 1 + 5 * 2);
    expect(fieldOf(completion, 'provider')).toBe('fake');
    expect(completion.id).toStartWith('chatcmpl-');
  });

  test('returns a request ID and a completion ID, and /v1/generation accepts both', async () => {
    const completion = await client.chat.completions.create({ model: modelId, messages: hello });
    const byRequest = await sdk.generation(completion._request_id);
    expect(byRequest).toMatchObject({ id: completion._request_id, model: 'acme/large' });
    expect(byRequest.total_cost).toBe(fieldOf(completion.usage, 'cost'));
    expect(await sdk.generation(completion.id)).toEqual(byRequest);
  });

  test("reaches the provider with the provider's credential and model name", async () => {
    await client.chat.completions.create({ model: modelId, messages: hello, seed: 7 });
    expect(sdk.lastBody).toMatchObject({ model: upstreamModel, messages: hello, seed: 7 });
    expect(sdk.lastRequest.headers.authorization).toBe(`Bearer ${upstreamSecret}`);
    expect(JSON.stringify(sdk.lastRequest.headers)).not.toContain(sdk.apiKey);
  });

  test('returns reasoning separately from the text', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('42', { reasoning: 'six times seven' }));
    const { choices, usage } = await client.chat.completions.create({
      model: modelId,
      messages: hello,
      reasoning_effort: 'high',
    });
    expect(sdk.lastBody.reasoning_effort).toBe('high');
    expect(fieldOf(choices[0]?.message, 'reasoning')).toBe('six times seven');
    expect(choices[0]?.message.content).toBe('42');
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBe(3);
  });
});

describe('a chat stream of the OpenAI SDK', () => {
  test('has the same ID in all chunks and no usage by default', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('one two three'));
    const stream = await client.chat.completions.create({
      model: modelId,
      messages: hello,
      stream: true,
    });
    const chunks = await allOf(stream);
    expect(textOf(chunks)).toBe('one two three');
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(new Set(chunks.map(({ model }) => model))).toEqual(new Set(['acme/large']));
    expect(chunks.every(({ choices, usage }) => choices.length === 1 && !usage)).toBe(true);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    expect(sdk.lastBody.stream_options).toEqual({ include_usage: true });
  });

  test('ends with a chunk that has usage and cost if requested', async () => {
    sdk.upstream.script(
      upstreamModel,
      chatAnswer('one two', { usage: { prompt: 9, completion: 2 } }),
    );
    const stream = await client.chat.completions.create({
      model: modelId,
      messages: hello,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await allOf(stream);
    const last = chunks.pop();
    expect(last).toMatchObject({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 2 } });
    expect(fieldOf(last?.usage, 'cost')).toBe(9 * 1 + 2 * 2);
    expect(chunks.every(({ choices, usage }) => choices.length === 1 && !usage)).toBe(true);
  });

  test('can be assembled by the stream helper', async () => {
    sdk.upstream.script(
      upstreamModel,
      chatAnswer('put me together', { reasoning: 'let me think' }),
    );
    const deltas: string[] = [];
    const stream = client.chat.completions
      .stream({ model: modelId, messages: hello })
      .on('content', (delta) => deltas.push(delta));
    const completion = await stream.finalChatCompletion();
    expect(deltas.join('')).toBe('put me together');
    expect(completion.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { role: 'assistant', content: 'put me together' },
    });
    expect(completion.id).toStartWith('chatcmpl-');
    expect(await sdk.generation(completion.id)).toMatchObject({ streamed: true, cancelled: false });
  });
});

describe('tools of the OpenAI SDK', () => {
  const call = { name: 'get_weather', arguments: { city: 'Zürich' }, id: 'call_1' };

  test('are sent and called, and their results are used in the next turn', async () => {
    sdk.upstream.script(upstreamModel, [callTools([call]), chatAnswer('It rains in Zürich.')]);
    const first = await client.chat.completions.create({
      model: modelId,
      messages: hello,
      tools: [weatherTool],
      tool_choice: 'auto',
    });
    expect(sdk.lastBody).toMatchObject({ tools: [weatherTool], tool_choice: 'auto' });
    const message = first.choices[0]?.message;
    if (!message) throw new Error('The completion has no message.');
    expect(first.choices[0]?.finish_reason).toBe('tool_calls');
    expect(message.tool_calls).toEqual([
      {
        id: 'call_1',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
      },
    ]);
    const result = { role: 'tool', tool_call_id: 'call_1', content: 'rain' } as const;
    const second = await client.chat.completions.create({
      model: modelId,
      messages: [...hello, message, result],
    });
    expect(second.choices[0]?.message.content).toBe('It rains in Zürich.');
    expect(sdk.lastBody.messages).toMatchObject([
      hello[0],
      { role: 'assistant', tool_calls: message.tool_calls },
      result,
    ]);
  });

  test('are called in parallel in a stream with separate arguments', async () => {
    const calls = [call, { name: 'get_weather', arguments: { city: 'Köln 😀' }, id: 'call_2' }];
    sdk.upstream.script(upstreamModel, callTools(calls));
    const { choices } = await client.chat.completions
      .stream({ model: modelId, messages: hello, tools: [weatherTool] })
      .finalChatCompletion();
    expect(choices[0]?.finish_reason).toBe('tool_calls');
    expect(choices[0]?.message.tool_calls).toMatchObject([
      { id: 'call_1', function: { name: 'get_weather', arguments: '{"city":"Zürich"}' } },
      { id: 'call_2', function: { name: 'get_weather', arguments: '{"city":"Köln 😀"}' } },
    ]);
  });

  test('are run by runTools, with and without streaming', async () => {
    for (const stream of [false, true]) {
      sdk.upstream.script(upstreamModel, [callTools([call, { ...call, id: 'b' }]), echo()]);
      const cities: string[] = [];
      const getWeather = {
        name: 'get_weather',
        description: 'Weather of a city',
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
        parse: (text: string): { city: string } => JSON.parse(text),
        function: ({ city }: { city: string }) => {
          cities.push(city);
          return `rain in ${city}`;
        },
      };
      const tools = [{ type: 'function' as const, function: getWeather }];
      const options = { model: modelId, messages: hello, tools };
      const runner = stream
        ? client.chat.completions.runTools({ ...options, stream: true })
        : client.chat.completions.runTools(options);
      expect(await runner.finalContent()).toBe('rain in Zürich');
      expect(cities).toEqual(['Zürich', 'Zürich']);
    }
    expect(sdk.upstream.requests).toHaveLength(4);
  });
});

describe('a chat request of the OpenAI SDK', () => {
  test('sends a JSON schema to the provider and returns matching JSON', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('{"city":"Bern","degrees":-3}'));
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' }, degrees: { type: 'number' } },
      required: ['city', 'degrees'],
      additionalProperties: false,
    };
    const format = {
      type: 'json_schema',
      json_schema: { name: 'weather', strict: true, schema },
    } as const;
    const { choices } = await client.chat.completions.create({
      model: modelId,
      messages: hello,
      response_format: format,
    });
    expect(sdk.lastBody.response_format).toEqual(format);
    expect(JSON.parse(choices[0]?.message.content ?? '')).toEqual({ city: 'Bern', degrees: -3 });
  });

  test('sends an image in a data: URL to the provider unchanged', async () => {
    const url = `data:image/png;base64,${onePixel}`;
    const content = [
      { type: 'text', text: 'what is this' },
      { type: 'image_url', image_url: { url, detail: 'low' } },
    ] as const;
    await client.chat.completions.create({
      model: modelId,
      messages: [{ role: 'user', content: [...content] }],
    });
    expect(sdk.lastBody.messages).toEqual([{ role: 'user', content }]);
  });

  test('sends unknown fields to the provider', async () => {
    const extra = { min_p: 0.05, chat_template_kwargs: { enable_thinking: false } };
    const body = { model: modelId, messages: hello, ...extra };
    await client.chat.completions.create(body);
    expect(sdk.lastBody).toMatchObject(extra);
  });
});

describe('an abort in the OpenAI SDK', () => {
  const options = () => ({ model: modelId, messages: hello, stream: true as const });

  test('disconnects from the provider within 1 second in the middle of a stream', async () => {
    sdk.upstream.script(upstreamModel, hangMidStream(4));
    const stream = await client.chat.completions.create(options());
    let abortedAt = 0;
    const chunks: ChatCompletionChunk[] = [];
    for await (const chunk of stream) {
      chunks.push(chunk);
      if (chunks.length < 4) continue;
      abortedAt = sdk.activeClock.ms;
      stream.controller.abort();
    }
    expect(chunks).toHaveLength(4);
    expect(await sdk.disconnectMs(abortedAt)).toBeLessThan(1_000);
    expect(await sdk.generation(chunks[0]?.id)).toMatchObject({ cancelled: true });
  });

  test('disconnects from the provider within 1 second if the client leaves the loop', async () => {
    sdk.upstream.script(upstreamModel, hangMidStream(2));
    for await (const _ of await client.chat.completions.create(options())) break;
    expect(await sdk.disconnectMs(sdk.activeClock.ms)).toBeLessThan(1_000);
  });

  test('disconnects from the provider within 1 second before the first output', async () => {
    sdk.upstream.script(upstreamModel, hangBeforeHeaders());
    const controller = new AbortController();
    const rejection = rejectionOf(
      client.chat.completions.create(options(), { signal: controller.signal }),
    );
    await sdk.upstream.until((requests) => requests.find((entry) => entry.outcome === 'hung'));
    const abortedAt = sdk.activeClock.ms;
    controller.abort();
    expect(await rejection).toBeInstanceOf(OpenAI.APIUserAbortError);
    expect(await sdk.disconnectMs(abortedAt)).toBeLessThan(1_000);
  });
});

test('the OpenAI SDK works with all common spellings of the base URL', async () => {
  for (const base of ['', '/', '/v1', '/v1/', '/v1/v1', '/openai/v1', '/openai', '/api/v1']) {
    const otherClient = new OpenAI({
      apiKey: sdk.apiKey,
      baseURL: sdk.gateway.url + base,
      maxRetries: 0,
    });
    const completion = await otherClient.chat.completions.create({
      model: modelId,
      messages: hello,
    });
    expect(completion.choices[0]?.message.content).toBe('ok');
    expect((await otherClient.models.list()).data.length).toBeGreaterThan(0);
  }
});

test('the OpenAI SDK lists models and retrieves IDs with slashes', async () => {
  const listed = await Array.fromAsync(client.models.list());
  const ids = listed.map(({ id }) => id);
  expect(ids).toContain('acme/large');
  expect(ids).toContain('demo/chat');
  const model = await client.models.retrieve('acme/large');
  expect(model).toEqual(listed[ids.indexOf('acme/large')] ?? model);
  expect(model).toMatchObject({ id: 'acme/large', object: 'model', owned_by: 'acme' });
  expect(fieldOf(model, 'context_length')).toBe(128_000);
});

test('the OpenAI SDK works with the demo model', async () => {
  const demo = { model: 'demo/chat', messages: hello };
  const completion = await client.chat.completions.create(demo);
  expect(completion.choices[0]?.message.content).toContain('how are you');
  expect(fieldOf(completion.usage, 'cost')).toBeGreaterThan(0);
  const streamed = await allOf(await client.chat.completions.create({ ...demo, stream: true }));
  expect(textOf(streamed)).toBe(completion.choices[0]?.message.content ?? '');
  const { choices } = await client.chat.completions.create({
    ...demo,
    tools: [weatherTool],
    tool_choice: 'required',
  });
  expect(choices[0]?.message.tool_calls?.[0]).toMatchObject({ function: { name: 'get_weather' } });
});
