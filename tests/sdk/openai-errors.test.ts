/** Tests the error classes, error messages, and retries of OpenAI's SDK. */
import { describe, expect, test } from 'bun:test';
import OpenAI, { type ClientOptions } from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources';
import {
  chatAnswer,
  errorInside200,
  gated,
  resetMidStream,
  status,
  status429,
  status500,
  words,
} from '../support/fake-upstream.ts';
import {
  clock,
  modelId,
  onePixel,
  rejectionOf,
  upstreamModel,
  upstreamSecret,
  useSdkGateway,
} from '../support/sdk-gateway.ts';

const sdk = await useSdkGateway();

const hello: ChatCompletionMessageParam[] = [{ role: 'user', content: 'how are you' }];

function clientWith(options: ClientOptions = {}): OpenAI {
  return new OpenAI({
    apiKey: sdk.apiKey,
    baseURL: `${sdk.gateway.url}/v1`,
    maxRetries: 0,
    ...options,
  });
}

/** Sends a chat that must fail and returns the SDK's error. */
async function errorOf(
  clientOptions: ClientOptions = {},
  body: object = {},
): Promise<InstanceType<typeof OpenAI.APIError>> {
  const request = { model: modelId, messages: hello, ...body };
  const error = await rejectionOf(clientWith(clientOptions).chat.completions.create(request));
  if (!(error instanceof OpenAI.APIError)) throw error;
  return error;
}

describe('the OpenAI SDK error for a gateway error', () => {
  test('is an AuthenticationError if the key is unknown', async () => {
    const error = await errorOf({ apiKey: `sk-tg-${'x'.repeat(40)}` });
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
    expect([error.status, error.type, error.code]).toEqual([401, 'invalid_api_key', 401]);
  });

  test('is a PermissionDeniedError if the key has the wrong kind, scope, or models', async () => {
    const otherModels = await sdk.gateway.makeKey({ models: ['demo/*'] });
    const otherScope = await sdk.gateway.makeKey({ scopes: ['embeddings'] });
    for (const apiKey of [sdk.gateway.keys.management, otherModels, otherScope]) {
      const error = await errorOf({ apiKey });
      expect(error).toBeInstanceOf(OpenAI.PermissionDeniedError);
      expect([error.status, error.type]).toEqual([403, 'forbidden']);
    }
  });

  test('is a NotFoundError with a suggestion for an unknown model', async () => {
    const error = await errorOf({}, { model: 'acme/larg' });
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error.param).toBe('model');
    expect(error.message).toContain('acme/large');
    const unlisted = await rejectionOf(clientWith().models.retrieve('acme/none'));
    expect(unlisted).toBeInstanceOf(OpenAI.NotFoundError);
  });

  test('is a BadRequestError with the field for a malformed request', async () => {
    const parts = [{ type: 'text', text: 'what is this' }, { type: 'image_url' }];
    const messages = [...hello, { role: 'user', content: parts }];
    const error = await errorOf({}, { messages });
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.type).toBe('invalid_request_error');
    expect(error.param).toStartWith('messages[1].content[1]');
    expect((await errorOf({}, { temperature: 'warm' })).param).toBe('temperature');
  });

  test('is a BadRequestError for a feature that the model lacks', async () => {
    const url = `data:image/png;base64,${onePixel}`;
    const content = [{ type: 'image_url', image_url: { url } }];
    const error = await errorOf({}, { model: 'acme/plain', messages: [{ role: 'user', content }] });
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.type).toBe('model_capability_mismatch');
    expect(sdk.upstream.requests).toHaveLength(0);
  });

  test('has the same request ID as the log', async () => {
    const error = await errorOf({}, { model: 'acme/none' });
    expect(error.requestID).toMatch(/^[0-9a-f-]{36}$/);
    expect(await sdk.generation(error.requestID)).toMatchObject({ id: error.requestID, usage: 0 });
  });

  test('is a RateLimitError with Retry-After when the rate limit is exceeded', async () => {
    const apiKey = await sdk.gateway.makeKey({ requests_per_minute: 1 });
    const client = clientWith({ apiKey });
    const send = () => client.chat.completions.create({ model: modelId, messages: hello });
    // Send 3 requests, because a new minute may begin between 2 of them, but only once.
    const outcomes = await Promise.allSettled([send(), send(), send()]);
    const rejected = outcomes.find((outcome) => outcome.status === 'rejected');
    const error: unknown = rejected?.reason;
    if (!(error instanceof OpenAI.RateLimitError)) throw error;
    expect(error.type).toBe('rate_limit_exceeded');
    const header = (name: string) => Number(error.headers.get(name));
    expect(header('retry-after')).toBeWithin(1, 61);
    expect(header('retry-after-ms')).toBeWithin(1, 60_001);
    expect([header('x-ratelimit-limit'), header('x-ratelimit-remaining')]).toEqual([1, 0]);
    expect(header('x-ratelimit-reset') % 60).toBe(0);
  });
});

describe('the OpenAI SDK error for a provider error', () => {
  test("is a BadRequestError with the provider's message, redacted", async () => {
    const sentence = `model ${upstreamModel} with key ${upstreamSecret} takes 4096 tokens`;
    sdk.upstream.script(upstreamModel, status(422, sentence));
    const error = await errorOf();
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.message).toContain('model acme/large with key [key] takes 4096 tokens');
    expect(error.message).not.toContain(upstreamModel);
  });

  test.each([
    ['is an InternalServerError and retried for status 500', status500(), 2],
    [
      'is an InternalServerError and not retried for a rejected credential',
      status(401, 'Incorrect API key provided'),
      1,
    ],
  ])('%s', async (_, broken, requests) => {
    sdk.upstream.script(upstreamModel, broken);
    const error = await errorOf({ maxRetries: 1 });
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect([error.status, error.type]).toEqual([502, 'upstream_error']);
    expect(sdk.upstream.requests).toHaveLength(requests);
  });

  test('is thrown before the stream starts, instead of returning an empty stream', async () => {
    sdk.upstream.script(upstreamModel, errorInside200(0));
    const error = await errorOf({ maxRetries: 0 }, { stream: true });
    expect([error.status, error.type]).toEqual([502, 'upstream_error']);
    expect(sdk.upstream.requests).toHaveLength(1);
  });

  test('is thrown inside the loop, after the content that arrived before the error', async () => {
    for (const [behavior, message] of [
      [resetMidStream(3), 'was interrupted'],
      [errorInside200(3), 'in the middle of its response'],
    ] as const) {
      sdk.upstream.script(upstreamModel, behavior);
      const stream = await clientWith().chat.completions.create({
        model: modelId,
        messages: hello,
        stream: true,
      });
      let text = '';
      const read = async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
      };
      const error = await rejectionOf(read());
      expect(error).toBeInstanceOf(OpenAI.APIError);
      expect(String(error)).toContain(message);
      expect(text).toBe('w1 w2');
    }
  });
});

describe('a RateLimitError of the OpenAI SDK', () => {
  const input = 'how are you';
  const calls = {
    'chat.completions': (client: OpenAI) =>
      client.chat.completions.create({ model: modelId, messages: hello }),
    'a stream of chat.completions': (client: OpenAI) =>
      client.chat.completions.create({ model: modelId, messages: hello, stream: true }),
    responses: (client: OpenAI) => client.responses.create({ model: modelId, input }),
  };

  test.each(Object.entries(calls))(
    'is thrown by %s if every provider answers 429, and says whose limit it is',
    async (name, call) => {
      sdk.upstream.script(upstreamModel, status429('7'));
      const error = (await rejectionOf(call(clientWith()))) as InstanceType<
        typeof OpenAI.RateLimitError
      >;
      expect(error).toBeInstanceOf(OpenAI.RateLimitError);
      expect(error.code as unknown).toBe(name === 'responses' ? 'upstream_error' : 429);
      expect(error.message).toContain('by its provider, not by this gateway. Try again in 7 s.');
      expect(error.headers.get('retry-after')).toBe('7');
      expect(error.headers.get('x-tollgate-limited-by')).toBe('provider');
    },
  );

  test('is a 503 for Codex, which retries that more often', async () => {
    sdk.upstream.script(upstreamModel, status429('7'));
    const defaultHeaders = { originator: 'codex_exec' };
    const call = clientWith({ defaultHeaders }).responses.create({ model: modelId, input });
    expect(await rejectionOf(call)).toMatchObject({ status: 503, code: 'upstream_error' });
  });
});

describe('a retry of the OpenAI SDK', () => {
  /** Returns a client that records the times and statuses of its requests. */
  function observedClient(options: ClientOptions, onStatus: (status: number) => void = () => {}) {
    const sentAt: number[] = [];
    const observedFetch = async (input: string | URL | Request, init?: RequestInit) => {
      sentAt.push(clock());
      const response = await fetch(input, init);
      onStatus(response.status);
      return response;
    };
    return { client: clientWith({ ...options, fetch: observedFetch }), sentAt };
  }

  test('waits for the duration in the Retry-After header of a rate-limited provider', async () => {
    sdk.upstream.script(upstreamModel, [status429('1'), chatAnswer('at last')]);
    const { client, sentAt } = observedClient({ maxRetries: 1 });
    const completion = await client.chat.completions.create({ model: modelId, messages: hello });
    expect(completion.choices[0]?.message.content).toBe('at last');
    const [first = 0, second = 0] = sentAt;
    // Without the header, the SDK would retry within 0.5 seconds.
    expect(second - first).toBeGreaterThanOrEqual(1_000);
    expect(sdk.upstream.requests).toHaveLength(2);
  });

  test('waits for a concurrency slot of its tenant', async () => {
    const apiKey = await sdk.gateway.makeTenant({
      id: 'busy',
      name: 'Busy',
      concurrent_requests: 1,
    });
    sdk.upstream.script(upstreamModel, [
      gated('finish', 2, chatAnswer(words(4))),
      chatAnswer('my turn'),
    ]);
    const options = { model: modelId, messages: hello };
    const running = await clientWith({ apiKey }).chat.completions.create({
      ...options,
      stream: true,
    });
    const chunks = Array.fromAsync(running);
    const statuses: number[] = [];
    const { client, sentAt } = observedClient({ apiKey, maxRetries: 2 }, (code) => {
      statuses.push(code);
      // Lets the running request finish once the other request has been rejected.
      if (code === 429) sdk.upstream.open('finish');
    });
    const completion = await client.chat.completions.create(options);
    expect(completion.choices[0]?.message.content).toBe('my turn');
    expect([statuses[0], statuses.at(-1)]).toEqual([429, 200]);
    const [first = 0, second = 0] = sentAt;
    expect(second - first).toBeGreaterThanOrEqual(1_000);
    expect((await chunks).at(-1)?.choices[0]?.finish_reason).toBe('stop');
  });
});
