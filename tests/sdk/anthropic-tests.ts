/** Tests an Anthropic SDK with the gateway's base URL. */
import { describe, expect, test } from 'bun:test';
import type Anthropic from '@anthropic-ai/sdk';
import {
  callTools,
  chatAnswer,
  echo,
  errorInside200,
  hangMidStream,
  resetMidStream,
  status,
  status429,
} from '../support/fake-upstream.ts';
import {
  type DialectModel,
  fieldOf,
  modelsByDialect,
  onePixel,
  rejectionOf,
  useSdkGateway,
} from '../support/sdk-gateway.ts';

/** The part of the SDK that the tests call. It is the same in both versions. */
export type AnthropicSdk = Pick<Anthropic, 'messages' | 'models'>;
type MakeClient = (options: ClientOptions) => AnthropicSdk;
interface ClientOptions {
  readonly apiKey: string;
  readonly baseURL: string;
  readonly maxRetries: number;
}
type Params = Anthropic.MessageCreateParamsNonStreaming;

const weather = {
  name: 'get_weather',
  description: 'Weather of a city',
  input_schema: {
    type: 'object' as const,
    properties: { city: { type: 'string' } },
    required: ['city'],
  },
};
const bern = { name: 'get_weather', arguments: { city: 'Bern' }, id: 'toolu_bern' };
const ulm = { name: 'get_weather', arguments: { city: 'Ulm' }, id: 'toolu_ulm' };

export async function testAnthropicSdk(name: string, makeClient: MakeClient): Promise<void> {
  const sdk = await useSdkGateway();
  const client = makeClient(sdk.anthropicOptions);

  const paramsFor = (
    { model }: Pick<DialectModel, 'model'>,
    more: Partial<Params> = {},
  ): Params => ({
    model,
    max_tokens: 1_000,
    messages: [{ role: 'user', content: 'how are you' }],
    ...more,
  });

  describe.each(modelsByDialect)(`${name}, with an $dialect provider`, (at) => {
    test('messages.create returns our model name, text, and usage', async () => {
      const usage = { prompt: 30, completion: 5 };
      sdk.upstream.script(
        at.upstreamModel,
        chatAnswer('Fine, thanks', { usage, cachedTokens: 10 }),
      );
      const message = await client.messages.create(paramsFor(at));
      expect(message).toMatchObject({
        type: 'message',
        role: 'assistant',
        model: at.model,
        content: [{ type: 'text', text: 'Fine, thanks' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 20, cache_read_input_tokens: 10, output_tokens: 5 },
      });
      expect(message.id).toMatch(/^msg_[0-9a-f]{32}$/);
      const generation = await sdk.gateway.get(`/v1/generation?id=${message.id}`);
      expect(generation.json.data).toMatchObject({ tokens_prompt: 30, tokens_completion: 5 });
    });

    test('messages.stream streams text and assembles the message', async () => {
      sdk.upstream.script(at.upstreamModel, chatAnswer('one two three', { usage: { prompt: 7 } }));
      const stream = client.messages.stream(paramsFor(at));
      const deltas: string[] = [];
      stream.on('text', (delta) => deltas.push(delta));
      const message = await stream.finalMessage();
      expect(deltas).toEqual(['one', ' two', ' three']);
      expect(message).toMatchObject({
        model: at.model,
        content: [{ type: 'text', text: 'one two three' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 7, output_tokens: 3 },
      });
    });

    test.each([true, false])(
      'calls tools and sends their results with streaming: %p',
      async (s) => {
        const create = (params: Params) =>
          s ? client.messages.stream(params).finalMessage() : client.messages.create(params);
        sdk.upstream.script(at.upstreamModel, [
          callTools([bern, ulm], { text: 'Let me see' }),
          echo(),
        ]);
        const first = paramsFor(at, { tools: [weather], tool_choice: { type: 'any' } });
        const called = await create(first);
        expect(called.stop_reason).toBe('tool_use');
        expect(called.content).toMatchObject([
          { type: 'text', text: 'Let me see' },
          { type: 'tool_use', id: 'toolu_bern', name: 'get_weather', input: { city: 'Bern' } },
          { type: 'tool_use', id: 'toolu_ulm', name: 'get_weather', input: { city: 'Ulm' } },
        ]);
        const answer = await create({
          ...first,
          messages: [
            ...first.messages,
            { role: 'assistant', content: called.content },
            {
              role: 'user',
              content: [
                { type: 'tool_result', tool_use_id: 'toolu_bern', content: 'rain' },
                { type: 'tool_result', tool_use_id: 'toolu_ulm', content: 'sun', is_error: true },
                { type: 'text', text: 'and now' },
              ],
            },
          ],
        });
        expect(fieldOf(answer.content[0], 'text')).toContain('and now');
      },
    );

    test('returns thinking before the answer and accepts it in the next request', async () => {
      sdk.upstream.script(at.upstreamModel, chatAnswer('Yes', { reasoning: 'hm let me see' }));
      const params = paramsFor(at, { thinking: { type: 'adaptive' }, max_tokens: 5_000 } as object);
      const full = await client.messages.create(params);
      const streamed = await client.messages.stream(params).finalMessage();
      for (const { content } of [full, streamed]) {
        expect(content).toMatchObject([
          { type: 'thinking', thinking: 'hm let me see' },
          { type: 'text', text: 'Yes' },
        ]);
      }
      const again = await client.messages.create({
        ...params,
        messages: [
          ...params.messages,
          { role: 'assistant', content: streamed.content },
          { role: 'user', content: 'sure?' },
        ],
      });
      expect(again.stop_reason).toBe('end_turn');
    });

    test('sends an image unchanged', async () => {
      const source = { type: 'base64' as const, media_type: 'image/png' as const, data: onePixel };
      const content = [
        { type: 'text' as const, text: 'what is this' },
        { type: 'image' as const, source },
      ];
      await client.messages.create(paramsFor(at, { messages: [{ role: 'user', content }] }));
      expect(JSON.stringify(sdk.lastBody.messages)).toContain(onePixel);
    });

    test('sends the system prompt, max_tokens, and stop sequences', async () => {
      await client.messages.create(
        // The newest types don't have temperature, but older applications send it.
        paramsFor(at, { system: 'be brief', stop_sequences: ['END'], temperature: 0.5 } as object),
      );
      const sent = sdk.lastBody;
      expect(JSON.stringify([sent.system, sent.messages])).toContain('be brief');
      expect(sent.stop_sequences ?? sent.stop).toEqual(['END']);
      expect(sent.temperature).toBe(0.5);
      expect(sent.max_tokens ?? sent.max_completion_tokens).toBe(1_000);
    });

    test('disconnects from the provider within 1 second after an abort', async () => {
      sdk.upstream.script(at.upstreamModel, hangMidStream(5));
      const stream = client.messages.stream(paramsFor(at));
      const started = Promise.withResolvers<void>();
      stream.on('text', () => started.resolve());
      const ended = rejectionOf(stream.finalMessage());
      await started.promise;
      const abortedAt = sdk.activeClock.ms;
      stream.abort();
      await ended;
      expect(await sdk.disconnectMs(abortedAt)).toBeLessThan(1_000);
    });

    test('reports a failed or interrupted stream as an error', async () => {
      // The Anthropic provider reports that it is overloaded.
      const expected = at.model === 'acme/claude' ? 'overloaded_error' : 'api_error';
      for (const [behavior, type] of [
        [errorInside200(6), expected],
        [resetMidStream(6), 'api_error'],
      ] as const) {
        sdk.upstream.script(at.upstreamModel, behavior);
        const error = await rejectionOf(client.messages.stream(paramsFor(at)).finalMessage());
        expect(JSON.stringify(fieldOf(error as object, 'error'))).toContain(type);
      }
    });

    test('reports errors with their status and type', async () => {
      const bad = [{ role: 'user', content: [{ type: 'text' }] }] as unknown as Params['messages'];
      const cases = [
        [paramsFor(at, { messages: bad }), undefined, 400, 'invalid_request_error'],
        [
          paramsFor({ model: 'acme/claud' as DialectModel['model'] }),
          undefined,
          404,
          'not_found_error',
        ],
        [paramsFor(at), status(400, 'too long'), 400, 'invalid_request_error'],
        [paramsFor(at), status429('7'), 429, 'rate_limit_error'],
        [paramsFor(at), status(401, 'no'), 502, 'api_error'],
      ] as const;
      for (const [params, behavior, code, type] of cases) {
        if (behavior) sdk.upstream.script(at.upstreamModel, behavior);
        const error = (await rejectionOf(client.messages.create(params))) as object;
        expect([fieldOf(error, 'status'), params.model]).toEqual([code, params.model]);
        expect(fieldOf(error, 'error')).toMatchObject({ type: 'error', error: { type } });
        expect(fieldOf(error, 'requestID')).toMatch(/^[0-9a-f-]{36}$/);
      }
    });
  });

  const count = async (at: DialectModel) => {
    const { messages, model } = paramsFor(at);
    const short = await client.messages.countTokens({ model, messages });
    const long = await client.messages.countTokens({
      model,
      messages: [{ role: 'user', content: 'how are you '.repeat(1_000) }],
      tools: [weather],
    });
    return [short.input_tokens, long.input_tokens];
  };

  describe(`messages.countTokens of ${name}`, () => {
    test("returns an estimate if the provider can't count tokens", async () => {
      const [short, long] = await count(modelsByDialect[0]);
      expect(short).toBeWithin(3, 20);
      expect(long).toBeWithin(2_500, 3_800);
      expect(sdk.upstream.requests).toHaveLength(0);
    });

    test('returns the count from an Anthropic provider', async () => {
      expect(await count(modelsByDialect[1])).toEqual([3, 3_000]);
      expect(sdk.upstream.requests.map(({ path, text }) => [path, text])).toEqual([
        ['/v1/messages/count_tokens', '3'],
        ['/v1/messages/count_tokens', '3000'],
      ]);
      expect(sdk.lastBody).toMatchObject({ model: 'claude-x', tools: [weather] });
    });

    test('reports an error from the provider', async () => {
      const { messages, model } = paramsFor(modelsByDialect[1]);
      sdk.upstream.script('claude-x', status(400, 'prompt is too long'));
      const error = (await rejectionOf(client.messages.countTokens({ model, messages }))) as object;
      expect(fieldOf(error, 'status')).toBe(400);
      expect(fieldOf(error, 'error')).toMatchObject({
        error: { type: 'invalid_request_error', message: 'prompt is too long' },
      });
    });
  });

  describe(`${name} with any provider`, () => {
    test('lists models with their limits', async () => {
      const models = await Array.fromAsync(client.models.list());
      const ids = models.map(({ id }) => id);
      expect(ids).toContain('acme/claude');
      expect(models[ids.indexOf('acme/open')]).toMatchObject({
        type: 'model',
        display_name: 'acme/open',
        created_at: '2026-09-01T00:00:00.000Z',
        max_input_tokens: 128_000,
      });
      expect(await client.models.retrieve('acme/claude')).toMatchObject({ max_tokens: 64_000 });
    });

    test('reports an unknown model and an unknown key', async () => {
      const missing = (await rejectionOf(client.models.retrieve('acme/none'))) as object;
      expect(fieldOf(missing, 'status')).toBe(404);
      expect(fieldOf(missing, 'error')).toMatchObject({
        type: 'error',
        error: { type: 'not_found_error', message: expect.stringContaining('"acme/none"') },
        request_id: expect.any(String),
      });
      const unauthorized = makeClient({ ...sdk.anthropicOptions, apiKey: 'sk-tg-nobody' });
      const rejected = (await rejectionOf(unauthorized.models.retrieve('acme/open'))) as object;
      expect(fieldOf(rejected, 'error')).toMatchObject({ error: { type: 'authentication_error' } });
    });

    test('receives 401 for an unknown key', async () => {
      const unauthorized = makeClient({ ...sdk.anthropicOptions, apiKey: 'sk-tg-nobody' });
      const error = (await rejectionOf(
        unauthorized.messages.create(paramsFor(modelsByDialect[0])),
      )) as object;
      expect(fieldOf(error, 'status')).toBe(401);
      expect(fieldOf(error, 'error')).toMatchObject({ error: { type: 'authentication_error' } });
    });
  });
}
