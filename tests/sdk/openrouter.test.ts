/** What an application sees that was written for OpenRouter and only got another base URL. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
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
import { failure, fieldOf, onePixel, Rig, upstreamModel } from './rig.ts';
import { getWeather, weatherInput } from './weather.ts';

let rig: Rig;

beforeAll(async () => {
  rig = await Rig.start();
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

function openRouter(more: OpenRouterProviderSettings = {}) {
  const baseURL = `${rig.gateway.url}/api/v1`;
  return createOpenRouter({ baseURL, apiKey: rig.apiKey, appName: 'A test', ...more });
}

const prompt = 'how are you';

/** Where this provider puts what only OpenRouter tells. */
function usageIn(metadata: Record<string, object> | undefined): Record<string, unknown> {
  const usage = fieldOf(metadata?.openrouter, 'usage');
  return isObject(usage) ? usage : {};
}

describe('a whole answer', () => {
  test('has text, reasoning, the provider, usage and the cost in credits', async () => {
    const usage = { prompt: 30, completion: 8 };
    const answer = chatAnswer('Fine, thanks', { reasoning: 'be polite', usage, cachedTokens: 4 });
    rig.upstream.script(upstreamModel, answer);
    const model = openRouter()(rig.model, { reasoning: { effort: 'high' } });
    const result = await generateText({ model, prompt });
    expect([result.text, result.reasoningText]).toEqual(['Fine, thanks', 'be polite']);
    expect(result.usage).toMatchObject({ inputTokens: 30, outputTokens: 8, totalTokens: 38 });
    expect(fieldOf(result.providerMetadata?.openrouter, 'provider')).toBe('fake');
    expect(usageIn(result.providerMetadata)).toMatchObject({
      cost: 30 * 1 + 8 * 2,
      promptTokensDetails: { cachedTokens: 4 },
      completionTokensDetails: { reasoningTokens: 2 },
    });
    expect(rig.lastBody).toMatchObject({ model: upstreamModel, reasoning_effort: 'high' });
  });

  test('comes from the next model of the chain when the first one fails', async () => {
    rig.upstream.script('plain', status500());
    const model = openRouter()('acme/plain', { models: ['acme/large'] });
    const { response, text } = await generateText({ model, prompt, maxRetries: 0 });
    expect([response.modelId, text]).toEqual(['acme/large', 'ok']);
    expect(rig.upstream.requests.map((entry) => entry.model)).toEqual(['plain', upstreamModel]);
  });

  test('follows a JSON schema', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('{"city":"Bern"}'));
    const { output } = await generateText({
      model: openRouter()(rig.model),
      prompt,
      output: Output.object({ schema: weatherInput }),
    });
    expect(output).toEqual({ city: 'Bern' });
    expect(rig.lastBody.response_format).toMatchObject({ type: 'json_schema' });
  });

  test('sees an image, which reaches the provider byte for byte', async () => {
    const url = `data:image/png;base64,${onePixel}`;
    const image = { type: 'file', mediaType: 'image/png', data: onePixel } as const;
    await generateText({
      model: openRouter()(rig.model),
      messages: [{ role: 'user', content: [{ type: 'text', text: prompt }, image] }],
    });
    expect(rig.lastBody.messages).toMatchObject([
      { content: [{ type: 'text' }, { type: 'image_url', image_url: { url } }] },
    ]);
  });
});

describe('a stream', () => {
  test('ends with usage and cost although nobody asked', async () => {
    const usage = { prompt: 9, completion: 5 };
    rig.upstream.script(
      upstreamModel,
      chatAnswer('one two three', { reasoning: 'count up', usage }),
    );
    const result = streamText({ model: openRouter()(rig.model), prompt });
    expect(await Array.fromAsync(result.textStream)).toEqual(['one', ' two', ' three']);
    expect(await result.reasoningText).toBe('count up');
    expect(await result.usage).toMatchObject({ inputTokens: 9, outputTokens: 5 });
    const metadata = await result.providerMetadata;
    expect(usageIn(metadata)).toMatchObject({ cost: 9 * 1 + 5 * 2, totalTokens: 14 });
  });

  test('has usage on any base URL when the settings ask for it', async () => {
    const model = openRouter({ baseURL: `${rig.gateway.url}/v1` })(rig.model, {
      usage: { include: true },
    });
    const result = streamText({ model, prompt });
    expect(await result.text).toBe('ok');
    expect(usageIn(await result.providerMetadata)).toMatchObject({ cost: 3 + 1 * 2 });
  });

  test('runs tools side by side, sends their results back and goes on', async () => {
    const calls = ['Zürich', 'Köln'].map((city, index) => ({
      name: 'getWeather',
      arguments: { city },
      id: `call_${index}`,
    }));
    rig.upstream.script(upstreamModel, [callTools(calls), echo()]);
    const result = streamText({
      model: openRouter()(rig.model),
      prompt,
      tools: { getWeather },
      stopWhen: isStepCount(2),
    });
    expect(await result.text).toBe('rain in Köln');
    expect(rig.lastBody.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_0' }, { id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_0', content: 'rain in Zürich' },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain in Köln' },
    ]);
  });

  test('stops the provider within a second when it is aborted', async () => {
    rig.upstream.script(upstreamModel, hangMidStream(4));
    const leaving = new AbortController();
    const model = openRouter()(rig.model);
    const result = streamText({ model, prompt, abortSignal: leaving.signal });
    let leftAt = 0;
    let text = '';
    for await (const piece of result.textStream) {
      text += piece;
      if (text !== 'w1 w2 w3') continue;
      leftAt = rig.awake.ms;
      leaving.abort();
    }
    expect(await rig.hangUpMs(leftAt)).toBeLessThan(1_000);
  });

  test('that breaks off ends in an error, not in a finished answer', async () => {
    rig.upstream.script(upstreamModel, resetMidStream(3));
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }) => void errors.push(error);
    const result = streamText({ model: openRouter()(rig.model), prompt, onError });
    expect((await Array.fromAsync(result.textStream)).join('')).toBe('w1 w2');
    expect(JSON.stringify(errors)).toContain('in the middle of its answer');
    expect(await result.finishReason).toBe('error');
  });
});

test('errors say what the gateway said, with the right status', async () => {
  const refusal = async (model: string, settings: OpenRouterProviderSettings = {}) => {
    const order = { model: openRouter(settings)(model), prompt, maxRetries: 0 };
    const error = await failure(generateText(order));
    if (!APICallError.isInstance(error)) throw error;
    return error;
  };
  expect((await refusal(rig.model, { apiKey: 'sk-tg-nobody' })).statusCode).toBe(401);
  const unknown = await refusal('acme/larg');
  expect([unknown.statusCode, unknown.message]).toEqual([
    404,
    expect.stringContaining('acme/large'),
  ]);
  rig.upstream.script(upstreamModel, status500());
  const broken = await refusal(rig.model);
  expect(broken.statusCode).toBe(502);
  expect(broken.message).toContain('The provider failed');
});

test('the built-in demo model answers, streams and bills', async () => {
  const model = openRouter()('demo/chat');
  const { text, providerMetadata } = await generateText({ model, prompt });
  expect(text).toContain(prompt);
  const { cost } = usageIn(providerMetadata);
  expect(cost).toBeGreaterThan(0);
  const streamed = streamText({ model, prompt });
  expect(await streamed.text).toBe(text);
  expect(usageIn(await streamed.providerMetadata)).toMatchObject({ cost });
});
