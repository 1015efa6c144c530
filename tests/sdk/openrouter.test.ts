/** Tests OpenRouter's provider for the AI SDK with the gateway's base URL. */
import { describe, expect, test } from 'bun:test';
import { createOpenRouter, type OpenRouterProviderSettings } from '@openrouter/ai-sdk-provider';
import { APICallError, generateText, isStepCount, Output, streamText } from 'ai';
import { isObject } from '../../src/core/json.ts';
import {
  callTools,
  chatAnswer,
  echo,
  hangMidStream,
  resetMidStream,
  status500,
} from '../support/fake-upstream.ts';
import {
  fieldOf,
  modelId,
  onePixel,
  rejectionOf,
  upstreamModel,
  useSdkGateway,
} from '../support/sdk-gateway.ts';
import { getWeather, weatherInput } from './weather-tool.ts';

const sdk = await useSdkGateway();

function openRouter(more: OpenRouterProviderSettings = {}) {
  const baseURL = `${sdk.gateway.url}/api/v1`;
  return createOpenRouter({ baseURL, apiKey: sdk.apiKey, appName: 'A test', ...more });
}

const prompt = 'how are you';

/** Returns the usage in OpenRouter's format from the metadata of the answer. */
function usageIn(metadata: Record<string, object> | undefined): Record<string, unknown> {
  const usage = fieldOf(metadata?.openrouter, 'usage');
  return isObject(usage) ? usage : {};
}

describe('generateText of @openrouter/ai-sdk-provider', () => {
  test('returns text, reasoning, the provider, usage, and the cost in dollars', async () => {
    const usage = { prompt: 30, completion: 8 };
    const answer = chatAnswer('Fine, thanks', { reasoning: 'be polite', usage, cachedTokens: 4 });
    sdk.upstream.script(upstreamModel, answer);
    const model = openRouter()(modelId, { reasoning: { effort: 'high' } });
    const result = await generateText({ model, prompt });
    expect([result.text, result.reasoningText]).toEqual(['Fine, thanks', 'be polite']);
    expect(result.usage).toMatchObject({ inputTokens: 30, outputTokens: 8, totalTokens: 38 });
    expect(fieldOf(result.providerMetadata?.openrouter, 'provider')).toBe('fake');
    expect(usageIn(result.providerMetadata)).toMatchObject({
      cost: 0.000046,
      promptTokensDetails: { cachedTokens: 4 },
      completionTokensDetails: { reasoningTokens: 2 },
    });
    expect(sdk.lastBody).toMatchObject({ model: upstreamModel, reasoning_effort: 'high' });
  });

  test('uses the next model if the first one fails', async () => {
    sdk.upstream.script('plain', status500());
    const model = openRouter()('acme/plain', { models: ['acme/large'] });
    const { response, text } = await generateText({ model, prompt, maxRetries: 0 });
    expect([response.modelId, text]).toEqual(['acme/large', 'ok']);
    expect(sdk.upstream.requests.map((entry) => entry.model)).toEqual(['plain', upstreamModel]);
  });

  test('returns an object that matches a JSON schema', async () => {
    sdk.upstream.script(upstreamModel, chatAnswer('{"city":"Bern"}'));
    const { output } = await generateText({
      model: openRouter()(modelId),
      prompt,
      output: Output.object({ schema: weatherInput }),
    });
    expect(output).toEqual({ city: 'Bern' });
    expect(sdk.lastBody.response_format).toMatchObject({ type: 'json_schema' });
  });

  test('sends an image to the provider unchanged', async () => {
    const url = `data:image/png;base64,${onePixel}`;
    const image = { type: 'file', mediaType: 'image/png', data: onePixel } as const;
    await generateText({
      model: openRouter()(modelId),
      messages: [{ role: 'user', content: [{ type: 'text', text: prompt }, image] }],
    });
    expect(sdk.lastBody.messages).toMatchObject([
      { content: [{ type: 'text' }, { type: 'image_url', image_url: { url } }] },
    ]);
  });
});

describe('streamText of @openrouter/ai-sdk-provider', () => {
  test('returns usage and cost even if the client does not request them', async () => {
    const usage = { prompt: 9, completion: 5 };
    sdk.upstream.script(
      upstreamModel,
      chatAnswer('one two three', { reasoning: 'count up', usage }),
    );
    const result = streamText({ model: openRouter()(modelId), prompt });
    expect(await Array.fromAsync(result.textStream)).toEqual(['one', ' two', ' three']);
    expect(await result.reasoningText).toBe('count up');
    expect(await result.usage).toMatchObject({ inputTokens: 9, outputTokens: 5 });
    const metadata = await result.providerMetadata;
    expect(usageIn(metadata)).toMatchObject({ cost: 0.000019, totalTokens: 14 });
  });

  test("returns usage with any base URL if the client's settings request it", async () => {
    const model = openRouter({ baseURL: `${sdk.gateway.url}/v1` })(modelId, {
      usage: { include: true },
    });
    const result = streamText({ model, prompt });
    expect(await result.text).toBe('ok');
    expect(usageIn(await result.providerMetadata)).toMatchObject({ cost: 3 + 1 * 2 });
  });

  test('runs parallel tools and sends their results', async () => {
    const calls = ['Zürich', 'Köln'].map((city, index) => ({
      name: 'getWeather',
      arguments: { city },
      id: `call_${index}`,
    }));
    sdk.upstream.script(upstreamModel, [callTools(calls), echo()]);
    const result = streamText({
      model: openRouter()(modelId),
      prompt,
      tools: { getWeather },
      stopWhen: isStepCount(2),
    });
    expect(await result.text).toBe('rain in Köln');
    expect(sdk.lastBody.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_0' }, { id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_0', content: 'rain in Zürich' },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain in Köln' },
    ]);
  });

  test('disconnects from the provider within 1 second when it is aborted', async () => {
    sdk.upstream.script(upstreamModel, hangMidStream(4));
    const controller = new AbortController();
    const model = openRouter()(modelId);
    const result = streamText({ model, prompt, abortSignal: controller.signal });
    let abortedAt = 0;
    let text = '';
    for await (const delta of result.textStream) {
      text += delta;
      if (text !== 'w1 w2 w3') continue;
      abortedAt = sdk.activeClock.ms;
      controller.abort();
    }
    expect(await sdk.disconnectMs(abortedAt)).toBeLessThan(1_000);
  });

  test('reports an interrupted answer as an error', async () => {
    sdk.upstream.script(upstreamModel, resetMidStream(3));
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }) => void errors.push(error);
    const result = streamText({ model: openRouter()(modelId), prompt, onError });
    expect((await Array.fromAsync(result.textStream)).join('')).toBe('w1 w2');
    expect(JSON.stringify(errors)).toContain('interrupted');
    expect(await result.finishReason).toBe('error');
  });
});

test('@openrouter/ai-sdk-provider reports the status and message of the gateway', async () => {
  const errorOf = async (model: string, settings: OpenRouterProviderSettings = {}) => {
    const options = { model: openRouter(settings)(model), prompt, maxRetries: 0 };
    const error = await rejectionOf(generateText(options));
    if (!APICallError.isInstance(error)) throw error;
    return error;
  };
  expect((await errorOf(modelId, { apiKey: 'sk-tg-nobody' })).statusCode).toBe(401);
  const unknown = await errorOf('acme/larg');
  expect([unknown.statusCode, unknown.message]).toEqual([
    404,
    expect.stringContaining('acme/large'),
  ]);
  sdk.upstream.script(upstreamModel, status500());
  const broken = await errorOf(modelId);
  expect(broken.statusCode).toBe(502);
  expect(broken.message).toContain('The provider failed');
});

test('@openrouter/ai-sdk-provider works with the demo model', async () => {
  const model = openRouter()('demo/chat');
  const { text, providerMetadata } = await generateText({ model, prompt });
  expect(text).toContain(prompt);
  const { cost } = usageIn(providerMetadata);
  expect(cost).toBeGreaterThan(0);
  const streamed = streamText({ model, prompt });
  expect(await streamed.text).toBe(text);
  expect(usageIn(await streamed.providerMetadata)).toMatchObject({ cost });
});
