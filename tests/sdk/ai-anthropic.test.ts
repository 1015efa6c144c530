/** What an application on the AI SDK sees with its provider for Anthropic. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateText, isStepCount, Output, streamText } from 'ai';
import {
  callTools,
  chatAnswer,
  echo,
  hangMidStream,
  resetMidStream,
  status500,
} from '../support/fake-upstream.ts';
import { AnthropicRig, served } from './anthropic-rig.ts';
import { failure, onePixel } from './rig.ts';
import { getWeather, weatherInput } from './weather.ts';

let rig: AnthropicRig;

beforeAll(async () => {
  rig = await AnthropicRig.start();
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

/** This SDK wants the `/v1` in its base URL. */
function modelAt(id: string, apiKey = rig.apiKey) {
  return createAnthropic({ baseURL: `${rig.gateway.url}/v1`, apiKey })(id);
}

const prompt = 'how are you';
const maxOutputTokens = 500;
const bern = { name: 'getWeather', arguments: { city: 'Bern' }, id: 'toolu_bern' };
const ulm = { name: 'getWeather', arguments: { city: 'Ulm' }, id: 'toolu_ulm' };

describe.each(served)('the AI SDK, with a model served by $by', ({ model, upstreamModel }) => {
  test('gets text, thoughts and usage', async () => {
    const usage = { prompt: 30, completion: 8 };
    rig.upstream.script(
      upstreamModel,
      chatAnswer('Fine, thanks', { reasoning: 'be polite', usage }),
    );
    const result = await generateText({ model: modelAt(model), prompt, maxOutputTokens });
    expect([result.text, result.reasoningText]).toEqual(['Fine, thanks', 'be polite']);
    expect(result.finishReason).toBe('stop');
    expect(result.usage).toMatchObject({ inputTokens: 30, outputTokens: 8 });
    expect(result.response.modelId).toBe(model);
  });

  test('streams text and thoughts', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('one two three', { reasoning: 'hm hm' }));
    const result = streamText({ model: modelAt(model), prompt, maxOutputTokens });
    expect(await Array.fromAsync(result.textStream)).toEqual(['one', ' two', ' three']);
    expect(await result.reasoningText).toBe('hm hm');
    expect(await result.finishReason).toBe('stop');
  });

  test('runs one tool or several at once, streamed and not', async () => {
    for (const calls of [[bern], [bern, ulm]]) {
      const order = {
        model: modelAt(model),
        prompt,
        maxOutputTokens,
        tools: { getWeather },
        stopWhen: isStepCount(2),
      };
      const last = `rain in ${calls.at(-1)?.arguments.city}`;
      rig.upstream.script(upstreamModel, [callTools(calls), echo()]);
      const whole = await generateText(order);
      expect(whole.steps[0]?.toolCalls.map(({ input }) => input)).toEqual(
        calls.map((call) => call.arguments),
      );
      expect(whole.text).toEndWith(last);
      rig.upstream.script(upstreamModel, [callTools(calls), echo()]);
      expect(await streamText(order).text).toEndWith(last);
    }
  });

  test('sends pictures byte for byte, and asks for JSON', async () => {
    rig.upstream.script(upstreamModel, chatAnswer('{"city":"Bern"}'));
    const result = await generateText({
      model: modelAt(model),
      maxOutputTokens,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'where is this' },
            { type: 'file', mediaType: 'image/png', data: Buffer.from(onePixel, 'base64') },
          ],
        },
      ],
    });
    expect(result.text).toBe('{"city":"Bern"}');
    expect(JSON.stringify(rig.lastBody.messages)).toContain(onePixel);
  });

  test('gets an object by a schema', async () => {
    rig.upstream.script(upstreamModel, [
      callTools([{ name: 'json', arguments: { city: 'Bern' }, id: 'toolu_json' }]),
    ]);
    const output = Output.object({ schema: weatherInput });
    const result = await generateText({ model: modelAt(model), prompt, maxOutputTokens, output });
    expect(result.output).toEqual({ city: 'Bern' });
  });

  test('hangs up on the provider when it stops listening', async () => {
    rig.upstream.script(upstreamModel, hangMidStream(5));
    const leaving = new AbortController();
    const result = streamText({
      model: modelAt(model),
      prompt,
      maxOutputTokens,
      abortSignal: leaving.signal,
      onError: () => undefined,
    });
    const pieces = result.textStream[Symbol.asyncIterator]();
    await pieces.next();
    const leftAt = rig.awake.ms;
    leaving.abort();
    expect(await rig.hangUpMs(leftAt)).toBeLessThan(1_000);
  });

  test('learns of failures before and in the middle of an answer', async () => {
    rig.upstream.script(upstreamModel, status500());
    const order = { model: modelAt(model), prompt, maxOutputTokens, maxRetries: 0 };
    const before = await failure(generateText(order));
    expect(before).toBeInstanceOf(APICallError);
    expect((before as APICallError).statusCode).toBe(502);
    rig.upstream.script(upstreamModel, resetMidStream(6));
    const errors: unknown[] = [];
    const broken = streamText({ ...order, onError: ({ error }) => void errors.push(error) });
    await Array.fromAsync(broken.textStream);
    expect(await broken.finishReason).toBe('error');
    expect(JSON.stringify(errors)).toContain('middle of its answer');
  });
});

test('the AI SDK is refused with an unknown key', async () => {
  const model = modelAt('acme/open', 'sk-tg-nobody');
  const error = await failure(generateText({ model, prompt, maxOutputTokens, maxRetries: 0 }));
  expect((error as APICallError).statusCode).toBe(401);
});
