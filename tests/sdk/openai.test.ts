/** What an application sees that was written for OpenAI and only got another base URL. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import OpenAI from 'openai';
import type { ChatCompletionChunk, ChatCompletionMessageParam } from 'openai/resources';
import {
  callTools,
  chatAnswer,
  echo,
  hangBeforeHeaders,
  hangMidStream,
} from '../support/fake-upstream.ts';
import { failure, fieldOf, onePixel, Rig, upstreamModel, upstreamSecret } from './rig.ts';

let rig: Rig;
let client: OpenAI;

beforeAll(async () => {
  rig = await Rig.start();
  client = new OpenAI({ apiKey: rig.apiKey, baseURL: `${rig.gateway.url}/v1`, maxRetries: 0 });
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

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

describe('a plain answer', () => {
  test('has the text, our names, the usage and what it cost in credits', async () => {
    const usage = { prompt: 30, completion: 5 };
    rig.upstream.script(upstreamModel, chatAnswer('Fine, thanks', { usage, cachedTokens: 10 }));
    const completion = await client.chat.completions.create({ model: rig.model, messages: hello });
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

  test('can be looked up by the request id of the SDK and by the completion id', async () => {
    const completion = await client.chat.completions.create({ model: rig.model, messages: hello });
    const byRequest = await rig.generation(completion._request_id);
    expect(byRequest).toMatchObject({ id: completion._request_id, model: 'acme/large' });
    expect(byRequest.total_cost).toBe(fieldOf(completion.usage, 'cost'));
    expect(await rig.generation(completion.id)).toEqual(byRequest);
  });

  test('is asked of the provider with its own credential and its own model name', async () => {
    await client.chat.completions.create({ model: rig.model, messages: hello, seed: 7 });
    expect(rig.lastBody).toMatchObject({ model: upstreamModel, messages: hello, seed: 7 });
    expect(rig.lastAsked.headers.authorization).toBe(`Bearer ${upstreamSecret}`);
    expect(JSON.stringify(rig.lastAsked.headers)).not.toContain(rig.apiKey);
  });

  test('shows the reasoning of the model beside its text', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('42', { reasoning: 'six times seven' }));
    const { choices, usage } = await client.chat.completions.create({
      model: rig.model,
      messages: hello,
      reasoning_effort: 'high',
    });
    expect(rig.lastBody.reasoning_effort).toBe('high');
    expect(fieldOf(choices[0]?.message, 'reasoning')).toBe('six times seven');
    expect(choices[0]?.message.content).toBe('42');
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBe(3);
  });
});

describe('a streamed answer', () => {
  test('comes chunk by chunk under one id and without usage that nobody asked for', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('one two three'));
    const stream = await client.chat.completions.create({
      model: rig.model,
      messages: hello,
      stream: true,
    });
    const chunks = await allOf(stream);
    expect(textOf(chunks)).toBe('one two three');
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(new Set(chunks.map(({ model }) => model))).toEqual(new Set(['acme/large']));
    expect(chunks.every(({ choices, usage }) => choices.length === 1 && !usage)).toBe(true);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    expect(rig.lastBody.stream_options).toEqual({ include_usage: true });
  });

  test('ends with one chunk of usage and cost when it was asked for', async () => {
    rig.upstream.script(
      upstreamModel,
      chatAnswer('one two', { usage: { prompt: 9, completion: 2 } }),
    );
    const stream = await client.chat.completions.create({
      model: rig.model,
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

  test('is put together again by the stream helper', async () => {
    rig.upstream.script(
      upstreamModel,
      chatAnswer('put me together', { reasoning: 'let me think' }),
    );
    const deltas: string[] = [];
    const stream = client.chat.completions
      .stream({ model: rig.model, messages: hello })
      .on('content', (delta) => deltas.push(delta));
    const completion = await stream.finalChatCompletion();
    expect(deltas.join('')).toBe('put me together');
    expect(completion.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { role: 'assistant', content: 'put me together' },
    });
    expect(completion.id).toStartWith('chatcmpl-');
    expect(await rig.generation(completion.id)).toMatchObject({ streamed: true, cancelled: false });
  });
});

describe('tools', () => {
  const call = { name: 'get_weather', arguments: { city: 'Zürich' }, id: 'call_1' };

  test('are offered, called, answered, and the answer leads to the next turn', async () => {
    rig.upstream.script(upstreamModel, [callTools([call]), chatAnswer('It rains in Zürich.')]);
    const first = await client.chat.completions.create({
      model: rig.model,
      messages: hello,
      tools: [weatherTool],
      tool_choice: 'auto',
    });
    expect(rig.lastBody).toMatchObject({ tools: [weatherTool], tool_choice: 'auto' });
    const asked = first.choices[0]?.message;
    if (!asked) throw new Error('there is no message');
    expect(first.choices[0]?.finish_reason).toBe('tool_calls');
    expect(asked.tool_calls).toEqual([
      {
        id: 'call_1',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
      },
    ]);
    const result = { role: 'tool', tool_call_id: 'call_1', content: 'rain' } as const;
    const second = await client.chat.completions.create({
      model: rig.model,
      messages: [...hello, asked, result],
    });
    expect(second.choices[0]?.message.content).toBe('It rains in Zürich.');
    expect(rig.lastBody.messages).toMatchObject([
      hello[0],
      { role: 'assistant', tool_calls: asked.tool_calls },
      result,
    ]);
  });

  test('run side by side in a stream and keep their arguments apart', async () => {
    const calls = [call, { name: 'get_weather', arguments: { city: 'Köln 😀' }, id: 'call_2' }];
    rig.upstream.script(upstreamModel, callTools(calls));
    const { choices } = await client.chat.completions
      .stream({ model: rig.model, messages: hello, tools: [weatherTool] })
      .finalChatCompletion();
    expect(choices[0]?.finish_reason).toBe('tool_calls');
    expect(choices[0]?.message.tool_calls).toMatchObject([
      { id: 'call_1', function: { name: 'get_weather', arguments: '{"city":"Zürich"}' } },
      { id: 'call_2', function: { name: 'get_weather', arguments: '{"city":"Köln 😀"}' } },
    ]);
  });

  test('are run by the SDK itself, streamed or not', async () => {
    for (const stream of [false, true]) {
      rig.upstream.script(upstreamModel, [callTools([call, { ...call, id: 'b' }]), echo()]);
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
      const order = { model: rig.model, messages: hello, tools };
      const runner = stream
        ? client.chat.completions.runTools({ ...order, stream: true })
        : client.chat.completions.runTools(order);
      expect(await runner.finalContent()).toBe('rain in Zürich');
      expect(cities).toEqual(['Zürich', 'Zürich']);
    }
    expect(rig.upstream.requests).toHaveLength(4);
  });
});

describe('what a request carries', () => {
  test('a JSON schema reaches the provider and the parsed answer comes back', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('{"city":"Bern","degrees":-3}'));
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
      model: rig.model,
      messages: hello,
      response_format: format,
    });
    expect(rig.lastBody.response_format).toEqual(format);
    expect(JSON.parse(choices[0]?.message.content ?? '')).toEqual({ city: 'Bern', degrees: -3 });
  });

  test('an image as a data URL reaches the provider byte for byte', async () => {
    const url = `data:image/png;base64,${onePixel}`;
    const content = [
      { type: 'text', text: 'what is this' },
      { type: 'image_url', image_url: { url, detail: 'low' } },
    ] as const;
    await client.chat.completions.create({
      model: rig.model,
      messages: [{ role: 'user', content: [...content] }],
    });
    expect(rig.lastBody.messages).toEqual([{ role: 'user', content }]);
  });

  test('fields that only the provider knows arrive there', async () => {
    const extra = { min_p: 0.05, chat_template_kwargs: { enable_thinking: false } };
    const body = { model: rig.model, messages: hello, ...extra };
    await client.chat.completions.create(body);
    expect(rig.lastBody).toMatchObject(extra);
  });
});

describe('an application that stops listening', () => {
  const order = () => ({ model: rig.model, messages: hello, stream: true as const });

  test('in the middle of a stream stops the provider within a second', async () => {
    rig.upstream.script(upstreamModel, hangMidStream(4));
    const stream = await client.chat.completions.create(order());
    let leftAt = 0;
    const chunks: ChatCompletionChunk[] = [];
    for await (const chunk of stream) {
      chunks.push(chunk);
      if (chunks.length < 4) continue;
      leftAt = rig.awake.ms;
      stream.controller.abort();
    }
    expect(chunks).toHaveLength(4);
    expect(await rig.hangUpMs(leftAt)).toBeLessThan(1_000);
    expect(await rig.generation(chunks[0]?.id)).toMatchObject({ cancelled: true });
  });

  test('by leaving the loop stops the provider too', async () => {
    rig.upstream.script(upstreamModel, hangMidStream(2));
    for await (const _ of await client.chat.completions.create(order())) break;
    expect(await rig.hangUpMs(rig.awake.ms)).toBeLessThan(1_000);
  });

  test('before the first word stops the provider within a second', async () => {
    rig.upstream.script(upstreamModel, hangBeforeHeaders());
    const leaving = new AbortController();
    const asked = client.chat.completions.create(order(), { signal: leaving.signal });
    const failed = failure(asked);
    await rig.upstream.until((requests) => requests.find((entry) => entry.outcome === 'hung'));
    const leftAt = rig.awake.ms;
    leaving.abort();
    expect(await failed).toBeInstanceOf(OpenAI.APIUserAbortError);
    expect(await rig.hangUpMs(leftAt)).toBeLessThan(1_000);
  });
});

test('any base URL that people type leads to the same answers', async () => {
  for (const base of ['', '/', '/v1', '/v1/', '/v1/v1', '/openai/v1', '/openai', '/api/v1']) {
    const there = new OpenAI({
      apiKey: rig.apiKey,
      baseURL: rig.gateway.url + base,
      maxRetries: 0,
    });
    const completion = await there.chat.completions.create({ model: rig.model, messages: hello });
    expect(completion.choices[0]?.message.content).toBe('ok');
    expect((await there.models.list()).data.length).toBeGreaterThan(0);
  }
});

test('models are listed and found by ids with slashes', async () => {
  const listed = await Array.fromAsync(client.models.list());
  const ids = listed.map(({ id }) => id);
  expect(ids).toContain('acme/large');
  expect(ids).toContain('demo/chat');
  const model = await client.models.retrieve('acme/large');
  expect(model).toEqual(listed[ids.indexOf('acme/large')] ?? model);
  expect(model).toMatchObject({ id: 'acme/large', object: 'model', owned_by: 'acme' });
  expect(fieldOf(model, 'context_length')).toBe(128_000);
});

test('the built-in demo model answers, streams, calls tools and bills', async () => {
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
