/** What an application sees that was written for Anthropic and only got another base URL. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
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
import { AnthropicRig, type Served, served } from './anthropic-rig.ts';
import { failure, fieldOf, onePixel } from './rig.ts';

/** The part of an SDK that the suite uses; the same in both of its versions. */
export type AnthropicSdk = Pick<Anthropic, 'messages' | 'models'>;
type MakeClient = (options: { apiKey: string; baseURL: string }) => AnthropicSdk;
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

export function anthropicSuite(name: string, makeClient: MakeClient): void {
  let rig: AnthropicRig;
  let client: AnthropicSdk;
  beforeAll(async () => {
    rig = await AnthropicRig.start();
    client = makeClient({ apiKey: rig.apiKey, baseURL: rig.baseURL });
  });
  afterAll(() => rig.stop());
  beforeEach(() => rig.upstream.reset());

  const ask = ({ model }: Pick<Served, 'model'>, more: Partial<Params> = {}): Params => ({
    model,
    max_tokens: 1_000,
    messages: [{ role: 'user', content: 'how are you' }],
    ...more,
  });

  describe.each(served)(`${name}, with a model served by $by`, (at) => {
    test('gets a message under our names, with its usage', async () => {
      const usage = { prompt: 30, completion: 5 };
      rig.upstream.script(
        at.upstreamModel,
        chatAnswer('Fine, thanks', { usage, cachedTokens: 10 }),
      );
      const message = await client.messages.create(ask(at));
      expect(message).toMatchObject({
        type: 'message',
        role: 'assistant',
        model: at.model,
        content: [{ type: 'text', text: 'Fine, thanks' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 20, cache_read_input_tokens: 10, output_tokens: 5 },
      });
      expect(message.id).toMatch(/^msg_[0-9a-f]{32}$/);
      const generation = await rig.gateway.get(`/v1/generation?id=${message.id}`);
      expect(generation.json.data).toMatchObject({ tokens_prompt: 30, tokens_completion: 5 });
    });

    test('streams text, and its helper puts it together', async () => {
      rig.upstream.script(at.upstreamModel, chatAnswer('one two three', { usage: { prompt: 7 } }));
      const stream = client.messages.stream(ask(at));
      const pieces: string[] = [];
      stream.on('text', (piece) => pieces.push(piece));
      const message = await stream.finalMessage();
      expect(pieces).toEqual(['one', ' two', ' three']);
      expect(message).toMatchObject({
        model: at.model,
        content: [{ type: 'text', text: 'one two three' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 7, output_tokens: 3 },
      });
    });

    test.each([true, false])(
      'calls tools and goes on with their results, streamed: %p',
      async (s) => {
        const create = (params: Params) =>
          s ? client.messages.stream(params).finalMessage() : client.messages.create(params);
        rig.upstream.script(at.upstreamModel, [
          callTools([bern, ulm], { text: 'Let me see' }),
          echo(),
        ]);
        const first = ask(at, { tools: [weather], tool_choice: { type: 'any' } });
        const asked = await create(first);
        expect(asked.stop_reason).toBe('tool_use');
        expect(asked.content).toMatchObject([
          { type: 'text', text: 'Let me see' },
          { type: 'tool_use', id: 'toolu_bern', name: 'get_weather', input: { city: 'Bern' } },
          { type: 'tool_use', id: 'toolu_ulm', name: 'get_weather', input: { city: 'Ulm' } },
        ]);
        const answered = await create({
          ...first,
          messages: [
            ...first.messages,
            { role: 'assistant', content: asked.content },
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
        expect(fieldOf(answered.content[0], 'text')).toContain('and now');
      },
    );

    test('gets thoughts before the answer, and may send them back', async () => {
      rig.upstream.script(at.upstreamModel, chatAnswer('Yes', { reasoning: 'hm let me see' }));
      const params = ask(at, { thinking: { type: 'adaptive' }, max_tokens: 5_000 } as object);
      const whole = await client.messages.create(params);
      const streamed = await client.messages.stream(params).finalMessage();
      for (const { content } of [whole, streamed]) {
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

    test('shows pictures, byte for byte', async () => {
      const source = { type: 'base64' as const, media_type: 'image/png' as const, data: onePixel };
      const content = [
        { type: 'text' as const, text: 'what is this' },
        { type: 'image' as const, source },
      ];
      await client.messages.create(ask(at, { messages: [{ role: 'user', content }] }));
      expect(JSON.stringify(rig.lastBody.messages)).toContain(onePixel);
    });

    test('sends its system prompt, limits and stop sequences', async () => {
      await client.messages.create(
        // The newest types have no temperature any more; older applications still send it.
        ask(at, { system: 'be brief', stop_sequences: ['END'], temperature: 0.5 } as object),
      );
      const sent = rig.lastBody;
      expect(JSON.stringify([sent.system, sent.messages])).toContain('be brief');
      expect(sent.stop_sequences ?? sent.stop).toEqual(['END']);
      expect(sent.temperature).toBe(0.5);
      expect(sent.max_tokens ?? sent.max_completion_tokens).toBe(1_000);
    });

    test('hangs up on the provider when it stops listening', async () => {
      rig.upstream.script(at.upstreamModel, hangMidStream(5));
      const stream = client.messages.stream(ask(at));
      const started = Promise.withResolvers<void>();
      stream.on('text', () => started.resolve());
      const ended = failure(stream.finalMessage());
      await started.promise;
      const leftAt = rig.awake.ms;
      stream.abort();
      await ended;
      expect(await rig.hangUpMs(leftAt)).toBeLessThan(1_000);
    });

    test('learns of a failure in mid-stream, and of a cut one, as an error', async () => {
      // The one of Anthropic's style says that it is overloaded.
      const told = at.model === 'acme/claude' ? 'overloaded_error' : 'api_error';
      for (const [behavior, type] of [
        [errorInside200(6), told],
        [resetMidStream(6), 'api_error'],
      ] as const) {
        rig.upstream.script(at.upstreamModel, behavior);
        const error = await failure(client.messages.stream(ask(at)).finalMessage());
        expect(JSON.stringify(fieldOf(error as object, 'error'))).toContain(type);
      }
    });

    test('learns of a refusal by its status and type', async () => {
      const bad = [{ role: 'user', content: [{ type: 'text' }] }] as unknown as Params['messages'];
      const cases = [
        [ask(at, { messages: bad }), undefined, 400, 'invalid_request_error'],
        [ask({ model: 'acme/claud' as Served['model'] }), undefined, 404, 'not_found_error'],
        [ask(at), status(400, 'too long'), 400, 'invalid_request_error'],
        [ask(at), status429('7'), 503, 'overloaded_error'],
        [ask(at), status(401, 'no'), 502, 'api_error'],
      ] as const;
      for (const [params, behavior, code, type] of cases) {
        if (behavior) rig.upstream.script(at.upstreamModel, behavior);
        const error = (await failure(client.messages.create(params))) as object;
        expect([fieldOf(error, 'status'), params.model]).toEqual([code, params.model]);
        expect(fieldOf(error, 'error')).toMatchObject({ type: 'error', error: { type } });
        expect(fieldOf(error, 'requestID')).toMatch(/^[0-9a-f-]{36}$/);
      }
    });
  });

  const count = async (at: Served) => {
    const { messages, model } = ask(at);
    const short = await client.messages.countTokens({ model, messages });
    const long = await client.messages.countTokens({
      model,
      messages: [{ role: 'user', content: 'how are you '.repeat(1_000) }],
      tools: [weather],
    });
    return [short.input_tokens, long.input_tokens];
  };

  describe(`${name}, counting tokens,`, () => {
    test('gets an estimate where the provider cannot be asked', async () => {
      const [short, long] = await count(served[0]);
      expect(short).toBeWithin(3, 20);
      expect(long).toBeWithin(2_500, 3_800);
      expect(rig.upstream.requests).toHaveLength(0);
    });

    test('gets what an Anthropic-style provider counts, which here are words', async () => {
      expect(await count(served[1])).toEqual([3, 3_000]);
      expect(rig.upstream.requests.map(({ path, text }) => [path, text])).toEqual([
        ['/v1/messages/count_tokens', '3'],
        ['/v1/messages/count_tokens', '3000'],
      ]);
      expect(rig.lastBody).toMatchObject({ model: 'claude-x', tools: [weather] });
    });

    test('learns what is wrong with its request', async () => {
      const { messages, model } = ask(served[1]);
      rig.upstream.script('claude-x', status(400, 'prompt is too long'));
      const error = (await failure(client.messages.countTokens({ model, messages }))) as object;
      expect(fieldOf(error, 'status')).toBe(400);
      expect(fieldOf(error, 'error')).toMatchObject({
        error: { type: 'invalid_request_error', message: 'prompt is too long' },
      });
    });
  });

  describe(`${name}, whatever the provider,`, () => {
    test('lists models with what it asks about them', async () => {
      const models = await Array.fromAsync(client.models.list());
      expect(models.map(({ id }) => id)).toEqual(['acme/open', 'acme/plain', 'acme/claude']);
      expect(models[0]).toMatchObject({
        type: 'model',
        display_name: 'acme/open',
        created_at: '2026-09-01T00:00:00.000Z',
        max_input_tokens: 128_000,
      });
      expect(await client.models.retrieve('acme/claude')).toMatchObject({ max_tokens: 64_000 });
    });

    test('learns of a model that is not there, and of a key that is none', async () => {
      const missing = (await failure(client.models.retrieve('acme/none'))) as object;
      expect(fieldOf(missing, 'status')).toBe(404);
      expect(fieldOf(missing, 'error')).toMatchObject({
        type: 'error',
        error: { type: 'not_found_error', message: expect.stringContaining('"acme/none"') },
        request_id: expect.any(String),
      });
      const stranger = makeClient({ baseURL: rig.baseURL, apiKey: 'sk-tg-nobody' });
      const refused = (await failure(stranger.models.retrieve('acme/open'))) as object;
      expect(fieldOf(refused, 'error')).toMatchObject({ error: { type: 'authentication_error' } });
    });

    test('is refused with an unknown key', async () => {
      const stranger = makeClient({ baseURL: rig.baseURL, apiKey: 'sk-tg-nobody' });
      const error = (await failure(stranger.messages.create(ask(served[0])))) as object;
      expect(fieldOf(error, 'status')).toBe(401);
      expect(fieldOf(error, 'error')).toMatchObject({ error: { type: 'authentication_error' } });
    });
  });
}
