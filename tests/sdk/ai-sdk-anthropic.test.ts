/** Tests the AI SDK with its Anthropic provider. */
import { describe, expect, test } from 'bun:test';
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
import { modelsByDialect, onePixel, rejectionOf, useSdkGateway } from '../support/sdk-gateway.ts';
import { getWeather, weatherInput } from './weather-tool.ts';

const sdk = await useSdkGateway();

/** This SDK's base URL ends in `/v1`. */
function modelAt(id: string, apiKey = sdk.apiKey) {
  return createAnthropic({ baseURL: `${sdk.gateway.url}/v1`, apiKey })(id);
}

const prompt = 'how are you';
const maxOutputTokens = 500;
const bern = { name: 'getWeather', arguments: { city: 'Bern' }, id: 'toolu_bern' };
const ulm = { name: 'getWeather', arguments: { city: 'Ulm' }, id: 'toolu_ulm' };

describe.each(modelsByDialect)(
  '@ai-sdk/anthropic with an $dialect provider',
  ({ model, upstreamModel }) => {
    test('generateText returns text, reasoning, and usage', async () => {
      const usage = { prompt: 30, completion: 8 };
      sdk.upstream.script(
        upstreamModel,
        chatAnswer('Fine, thanks', { reasoning: 'be polite', usage }),
      );
      const result = await generateText({ model: modelAt(model), prompt, maxOutputTokens });
      expect([result.text, result.reasoningText]).toEqual(['Fine, thanks', 'be polite']);
      expect(result.finishReason).toBe('stop');
      expect(result.usage).toMatchObject({ inputTokens: 30, outputTokens: 8 });
      expect(result.response.modelId).toBe(model);
    });

    test('streamText streams text and reasoning', async () => {
      sdk.upstream.script(upstreamModel, chatAnswer('one two three', { reasoning: 'hm hm' }));
      const result = streamText({ model: modelAt(model), prompt, maxOutputTokens });
      expect(await Array.fromAsync(result.textStream)).toEqual(['one', ' two', ' three']);
      expect(await result.reasoningText).toBe('hm hm');
      expect(await result.finishReason).toBe('stop');
    });

    test('generateText and streamText run one tool, or several tools in parallel', async () => {
      for (const calls of [[bern], [bern, ulm]]) {
        const options = {
          model: modelAt(model),
          prompt,
          maxOutputTokens,
          tools: { getWeather },
          stopWhen: isStepCount(2),
        };
        const last = `rain in ${calls.at(-1)?.arguments.city}`;
        sdk.upstream.script(upstreamModel, [callTools(calls), echo()]);
        const result = await generateText(options);
        expect(result.steps[0]?.toolCalls.map(({ input }) => input)).toEqual(
          calls.map((call) => call.arguments),
        );
        expect(result.text).toEndWith(last);
        sdk.upstream.script(upstreamModel, [callTools(calls), echo()]);
        expect(await streamText(options).text).toEndWith(last);
      }
    });

    test('generateText sends an image unchanged', async () => {
      sdk.upstream.script(upstreamModel, chatAnswer('{"city":"Bern"}'));
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
      expect(JSON.stringify(sdk.lastBody.messages)).toContain(onePixel);
    });

    test('generateText returns an object that matches a schema', async () => {
      sdk.upstream.script(upstreamModel, [
        callTools([{ name: 'json', arguments: { city: 'Bern' }, id: 'toolu_json' }]),
      ]);
      const output = Output.object({ schema: weatherInput });
      const result = await generateText({ model: modelAt(model), prompt, maxOutputTokens, output });
      expect(result.output).toEqual({ city: 'Bern' });
    });

    test('an aborted streamText disconnects from the provider within 1 second', async () => {
      sdk.upstream.script(upstreamModel, hangMidStream(5));
      const controller = new AbortController();
      const result = streamText({
        model: modelAt(model),
        prompt,
        maxOutputTokens,
        abortSignal: controller.signal,
        onError: () => undefined,
      });
      const deltas = result.textStream[Symbol.asyncIterator]();
      await deltas.next();
      const abortedAt = sdk.activeClock.ms;
      controller.abort();
      expect(await sdk.disconnectMs(abortedAt)).toBeLessThan(1_000);
    });

    test('reports a failure before an answer and in the middle of one', async () => {
      sdk.upstream.script(upstreamModel, status500());
      const options = { model: modelAt(model), prompt, maxOutputTokens, maxRetries: 0 };
      const before = await rejectionOf(generateText(options));
      expect(before).toBeInstanceOf(APICallError);
      expect((before as APICallError).statusCode).toBe(502);
      sdk.upstream.script(upstreamModel, resetMidStream(6));
      const errors: unknown[] = [];
      const broken = streamText({ ...options, onError: ({ error }) => void errors.push(error) });
      // The transfer is never finished, so reading the rest fails after the error event.
      expect(await rejectionOf(Array.fromAsync(broken.textStream))).toBeInstanceOf(APICallError);
      expect(JSON.stringify(errors)).toContain('interrupted');
    });
  },
);

test('@ai-sdk/anthropic receives 401 for an unknown key', async () => {
  const model = modelAt('acme/open', 'sk-tg-nobody');
  const error = await rejectionOf(generateText({ model, prompt, maxOutputTokens, maxRetries: 0 }));
  expect((error as APICallError).statusCode).toBe(401);
});
