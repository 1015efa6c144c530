/** Tests the AI SDK with its provider for OpenAI-compatible servers. */
import { describe, expect, test } from 'bun:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, isStepCount, Output, streamText } from 'ai';
import {
  callTools,
  chatAnswer,
  echo,
  hangMidStream,
  replay,
  resetMidStream,
  status429,
  status500,
} from '../support/fake-upstream.ts';
import {
  clock,
  fieldOf,
  modelId,
  onePixel,
  rejectionOf,
  upstreamModel,
  useSdkGateway,
} from '../support/sdk-gateway.ts';
import { getWeather, weatherInput } from './weather-tool.ts';

const sdk = await useSdkGateway();

function modelAt(id = modelId, more: { apiKey?: string; includeUsage?: boolean } = {}) {
  const provider = createOpenAICompatible({
    name: 'tollgate',
    baseURL: `${sdk.gateway.url}/v1`,
    apiKey: sdk.apiKey,
    supportsStructuredOutputs: true,
    ...more,
  });
  return provider(id);
}

const prompt = 'how are you';

describe('generateText of @ai-sdk/openai-compatible', () => {
  test('returns text, reasoning, usage, and the cost in credits', async () => {
    const usage = { prompt: 30, completion: 8 };
    sdk.upstream.script(
      upstreamModel,
      chatAnswer('Fine, thanks', { reasoning: 'be polite', usage }),
    );
    const result = await generateText({ model: modelAt(), prompt, reasoning: 'high' });
    expect([result.text, result.reasoningText]).toEqual(['Fine, thanks', 'be polite']);
    expect(result.finishReason).toBe('stop');
    expect(result.usage).toMatchObject({ inputTokens: 30, outputTokens: 8, totalTokens: 38 });
    expect(result.usage.raw?.cost).toBe(30 * 1 + 8 * 2);
    expect(result.response.modelId).toBe('acme/large');
    expect(sdk.lastBody.reasoning_effort).toBe('high');
    const requestId = result.response.headers?.['x-request-id'];
    expect(await sdk.generation(requestId)).toMatchObject({ total_cost: 46 });
  });

  test('returns an object that matches a JSON schema', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('{"city":"Bern"}'));
    const result = await generateText({
      model: modelAt(),
      prompt,
      output: Output.object({ schema: weatherInput }),
    });
    expect(result.output).toEqual({ city: 'Bern' });
    expect(sdk.lastBody.response_format).toMatchObject({
      type: 'json_schema',
      json_schema: { strict: true, schema: { required: ['city'] } },
    });
  });

  test('sends an image to the provider unchanged', async () => {
    const image = Buffer.from(onePixel, 'base64');
    await generateText({
      model: modelAt(),
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'what is this' },
            { type: 'file', mediaType: 'image/png', data: image },
          ],
        },
      ],
    });
    expect(sdk.lastBody.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'what is this' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${onePixel}` } },
        ],
      },
    ]);
  });

  test('runs one tool, or several tools in parallel, and sends their results', async () => {
    const bern = { name: 'getWeather', arguments: { city: 'Bern' }, id: 'a' };
    const ulm = { name: 'getWeather', arguments: { city: 'Ulm' }, id: 'b' };
    for (const calls of [[bern], [bern, ulm]]) {
      sdk.upstream.script(upstreamModel, [callTools(calls), echo()]);
      const result = await generateText({
        model: modelAt(),
        prompt,
        tools: { getWeather },
        stopWhen: isStepCount(2),
      });
      const inputs = result.steps[0]?.toolCalls.map(({ input }) => input);
      expect(inputs).toEqual(calls.map((call) => call.arguments));
      expect(result.text).toBe(`rain in ${calls.at(-1)?.arguments.city}`);
      const results = calls.map(({ id, arguments: { city } }) => ({
        role: 'tool',
        tool_call_id: id,
        content: `rain in ${city}`,
      }));
      const { messages } = sdk.lastBody;
      expect(Array.isArray(messages) ? messages.slice(2) : []).toEqual(results);
    }
  });
});

describe('streamText of @ai-sdk/openai-compatible', () => {
  test('streams text and reasoning, with usage and cost if requested', async () => {
    const usage = { prompt: 9, completion: 5 };
    sdk.upstream.script(
      upstreamModel,
      chatAnswer('one two three', { reasoning: 'count up', usage }),
    );
    const result = streamText({ model: modelAt(modelId, { includeUsage: true }), prompt });
    const deltas = await Array.fromAsync(result.textStream);
    expect(deltas).toEqual(['one', ' two', ' three']);
    expect(await result.reasoningText).toBe('count up');
    expect(await result.finishReason).toBe('stop');
    const counted = await result.usage;
    expect(counted).toMatchObject({ inputTokens: 9, outputTokens: 5 });
    expect(counted.raw?.cost).toBe(9 * 1 + 5 * 2);
  });

  test('has no usage if none was requested', async () => {
    const result = streamText({ model: modelAt(), prompt });
    expect(await result.text).toBe('ok');
    expect((await result.usage).totalTokens).toBeUndefined();
  });

  test('runs parallel tools whose arguments arrive in several chunks', async () => {
    const calls = ['Zürich', 'Köln 😀'].map((city, index) => ({
      name: 'getWeather',
      arguments: { city },
      id: `call_${index}`,
    }));
    sdk.upstream.script(upstreamModel, [callTools(calls), chatAnswer('It rains in both.')]);
    const result = streamText({
      model: modelAt(),
      prompt,
      tools: { getWeather },
      stopWhen: isStepCount(2),
    });
    expect(await result.text).toBe('It rains in both.');
    const [first] = await result.steps;
    expect(first?.toolResults.map(({ output }) => output)).toEqual([
      'rain in Zürich',
      'rain in Köln 😀',
    ]);
  });

  test('reads tool calls even if the provider sends empty deltas, which the SDK would reject', async () => {
    const opening = { id: 'a', type: 'function', function: { name: 'getWeather', arguments: '' } };
    const input = { function: { arguments: '{"city":"Bern"}' } };
    const callDeltas = [opening, {}, { id: 'a' }, { function: null }, input, { type: 'function' }];
    const chunks = callDeltas.map((callDelta) => ({ tool_calls: [{ index: 0, ...callDelta }] }));
    const events = [...chunks, {}].map((delta, index) => {
      const finish_reason = index === chunks.length ? 'tool_calls' : null;
      return `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason }] })}`;
    });
    const body = `${[...events, 'data: [DONE]'].join('\n\n')}\n\n`;
    sdk.upstream.script(upstreamModel, replay(body, { contentType: 'text/event-stream' }));
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }) => void errors.push(error);
    const result = streamText({ model: modelAt(), prompt, tools: { getWeather }, onError });
    expect((await result.toolCalls).map((call) => call.input)).toEqual([{ city: 'Bern' }]);
    expect(errors).toEqual([]);
  });

  test('disconnects from the provider within 1 second when it is aborted', async () => {
    sdk.upstream.script(upstreamModel, hangMidStream(4));
    const controller = new AbortController();
    const result = streamText({ model: modelAt(), prompt, abortSignal: controller.signal });
    let abortedAt = 0;
    let text = '';
    for await (const delta of result.textStream) {
      text += delta;
      if (text !== 'w1 w2 w3') continue;
      abortedAt = sdk.activeClock.ms;
      controller.abort();
    }
    expect(text).toBe('w1 w2 w3');
    expect(await sdk.disconnectMs(abortedAt)).toBeLessThan(1_000);
  });

  test('reports an interrupted answer as an error', async () => {
    sdk.upstream.script(upstreamModel, resetMidStream(3));
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }) => void errors.push(error);
    const result = streamText({ model: modelAt(), prompt, onError });
    let text = '';
    const reading = (async () => {
      for await (const delta of result.textStream) text += delta;
    })();
    // The transfer is never finished, so reading the rest fails after the error event.
    expect(await rejectionOf(reading)).toBeInstanceOf(APICallError);
    expect(text).toBe('w1 w2');
    expect(JSON.stringify(errors)).toContain('interrupted');
  });
});

describe('an APICallError of @ai-sdk/openai-compatible', () => {
  async function errorOf(...args: Parameters<typeof modelAt>): Promise<APICallError> {
    const model = modelAt(...args);
    const error = await rejectionOf(generateText({ model, prompt, maxRetries: 0 }));
    if (!APICallError.isInstance(error)) throw error;
    return error;
  }

  test('has the status, message, and request ID of the gateway', async () => {
    const wrongKey = await errorOf(modelId, { apiKey: 'sk-tg-nobody' });
    expect([wrongKey.statusCode, wrongKey.isRetryable]).toEqual([401, false]);
    const wrongModel = await errorOf('acme/larg');
    expect([wrongModel.statusCode, wrongModel.isRetryable]).toEqual([404, false]);
    expect(wrongModel.message).toContain('acme/large');
    expect(fieldOf(wrongModel.responseHeaders, 'x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    const forbidden = await errorOf(modelId, { apiKey: sdk.gateway.keys.management });
    expect([forbidden.statusCode, forbidden.isRetryable]).toEqual([403, false]);
    sdk.upstream.script(upstreamModel, status500());
    const broken = await errorOf();
    expect([broken.statusCode, broken.message]).toEqual([502, expect.stringContaining('provider')]);
  });

  test('names a rejected field', async () => {
    const options = { model: modelAt(), prompt, maxRetries: 0, temperature: 3 };
    const error = await rejectionOf(generateText(options));
    if (!APICallError.isInstance(error)) throw error;
    expect(error.statusCode).toBe(400);
    expect(error.responseBody).toContain('"param":"temperature"');
  });

  test('is retried after the delay in the Retry-After header', async () => {
    sdk.upstream.script(upstreamModel, [status429('3'), chatAnswer('at last')]);
    const startedAt = clock();
    const { text } = await generateText({ model: modelAt(), prompt, maxRetries: 1 });
    expect(text).toBe('at last');
    // Without the header, the SDK would retry after 2 seconds.
    expect(clock() - startedAt).toBeGreaterThanOrEqual(3_000);
    expect(sdk.upstream.requests).toHaveLength(2);
  });
});

test('@ai-sdk/openai-compatible works with the demo model', async () => {
  const { text, usage } = await generateText({ model: modelAt('demo/chat'), prompt });
  expect(text).toContain(prompt);
  expect(usage.raw?.cost).toBeGreaterThan(0);
  expect(await streamText({ model: modelAt('demo/chat'), prompt }).text).toBe(text);
});
