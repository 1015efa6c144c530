/** Which of its error classes the official SDK raises, what they tell, and what it repeats. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
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
import { clock, failure, onePixel, Rig, upstreamModel, upstreamSecret } from './rig.ts';

let rig: Rig;

beforeAll(async () => {
  rig = await Rig.start();
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

const hello: ChatCompletionMessageParam[] = [{ role: 'user', content: 'how are you' }];

function clientWith(options: ClientOptions = {}): OpenAI {
  return new OpenAI({
    apiKey: rig.apiKey,
    baseURL: `${rig.gateway.url}/v1`,
    maxRetries: 0,
    ...options,
  });
}

/** Asks for a chat that must be refused, and gives back the SDK's error. */
async function refusal(
  options: ClientOptions = {},
  body: object = {},
): Promise<InstanceType<typeof OpenAI.APIError>> {
  const order = { model: rig.model, messages: hello, ...body };
  const error = await failure(clientWith(options).chat.completions.create(order));
  if (!(error instanceof OpenAI.APIError)) throw error;
  return error;
}

describe('a refusal by the gateway', () => {
  test('of an unknown key is an AuthenticationError', async () => {
    const error = await refusal({ apiKey: `sk-tg-${'x'.repeat(40)}` });
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
    expect([error.status, error.type, error.code]).toEqual([401, 'invalid_api_key', 401]);
  });

  test('of a kind of key, a scope or a model is a PermissionDeniedError', async () => {
    const otherModels = await rig.gateway.makeKey({ models: ['demo/*'] });
    const otherScope = await rig.gateway.makeKey({ scopes: ['embeddings'] });
    for (const apiKey of [rig.gateway.keys.management, otherModels, otherScope]) {
      const error = await refusal({ apiKey });
      expect(error).toBeInstanceOf(OpenAI.PermissionDeniedError);
      expect([error.status, error.type]).toEqual([403, 'forbidden']);
    }
  });

  test('of a model that does not exist is a NotFoundError that names a near one', async () => {
    const error = await refusal({}, { model: 'acme/larg' });
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error.param).toBe('model');
    expect(error.message).toContain('acme/large');
    const unlisted = await failure(clientWith().models.retrieve('acme/none'));
    expect(unlisted).toBeInstanceOf(OpenAI.NotFoundError);
  });

  test('of a malformed request is a BadRequestError that names the field', async () => {
    const parts = [{ type: 'text', text: 'what is this' }, { type: 'image_url' }];
    const messages = [...hello, { role: 'user', content: parts }];
    const error = await refusal({}, { messages });
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.type).toBe('invalid_request_error');
    expect(error.param).toStartWith('messages[1].content[1]');
    expect((await refusal({}, { temperature: 'warm' })).param).toBe('temperature');
  });

  test('of what the model cannot do is a BadRequestError', async () => {
    const url = `data:image/png;base64,${onePixel}`;
    const content = [{ type: 'image_url', image_url: { url } }];
    const error = await refusal({}, { model: 'acme/plain', messages: [{ role: 'user', content }] });
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.type).toBe('model_capability_mismatch');
    expect(rig.upstream.requests).toHaveLength(0);
  });

  test('carries the request id under which the log has it', async () => {
    const error = await refusal({}, { model: 'acme/none' });
    expect(error.requestID).toMatch(/^[0-9a-f-]{36}$/);
    expect(await rig.generation(error.requestID)).toMatchObject({ id: error.requestID, usage: 0 });
  });

  test('of too many requests is a RateLimitError that says when to come back', async () => {
    const apiKey = await rig.gateway.makeKey({ requests_per_minute: 1 });
    const client = clientWith({ apiKey });
    const ask = () => client.chat.completions.create({ model: rig.model, messages: hello });
    // Three in a row, because a new minute may begin between two of them, but only once.
    const outcomes = await Promise.allSettled([ask(), ask(), ask()]);
    const refused = outcomes.find((outcome) => outcome.status === 'rejected');
    const error: unknown = refused?.reason;
    if (!(error instanceof OpenAI.RateLimitError)) throw error;
    expect(error.type).toBe('rate_limit_exceeded');
    const header = (name: string) => Number(error.headers.get(name));
    expect(header('retry-after')).toBeWithin(1, 61);
    expect(header('retry-after-ms')).toBeWithin(1, 60_001);
    expect([header('x-ratelimit-limit'), header('x-ratelimit-remaining')]).toEqual([1, 0]);
    expect(header('x-ratelimit-reset') % 60).toBe(0);
  });
});

describe('a failure of the provider', () => {
  test('about the request is a BadRequestError in its words, without its names', async () => {
    const sentence = `model ${upstreamModel} with key ${upstreamSecret} takes 4096 tokens`;
    rig.upstream.script(upstreamModel, status(422, sentence));
    const error = await refusal();
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.message).toContain('model acme/large with key [key] takes 4096 tokens');
    expect(error.message).not.toContain(upstreamModel);
  });

  test.each([
    ['that may pass is an InternalServerError, which the SDK tries again', status500(), 2],
    ['that stays is one that it does not', status(401, 'Incorrect API key provided'), 1],
  ])('%s', async (_, broken, requests) => {
    rig.upstream.script(upstreamModel, broken);
    const error = await refusal({ maxRetries: 1 });
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect([error.status, error.type]).toEqual([502, 'upstream_error']);
    expect(rig.upstream.requests).toHaveLength(requests);
  });

  test('before a stream has begun is an error too, not an empty stream', async () => {
    rig.upstream.script(upstreamModel, errorInside200(0));
    const error = await refusal({ maxRetries: 0 }, { stream: true });
    expect([error.status, error.type]).toEqual([502, 'upstream_error']);
    expect(rig.upstream.requests).toHaveLength(1);
  });

  test('in the middle of a stream is raised from the loop after the words that came', async () => {
    for (const broken of [resetMidStream(3), errorInside200(3)]) {
      rig.upstream.script(upstreamModel, broken);
      const stream = await clientWith().chat.completions.create({
        model: rig.model,
        messages: hello,
        stream: true,
      });
      let text = '';
      const read = async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
      };
      const error = await failure(read());
      expect(error).toBeInstanceOf(OpenAI.APIError);
      expect(String(error)).toContain('in the middle of its answer');
      expect(text).toBe('w1 w2');
    }
  });
});

describe('a retry of the SDK', () => {
  /** A client that tells when it really sends and what came back. */
  function watched(options: ClientOptions, onStatus: (status: number) => void = () => {}) {
    const sentAt: number[] = [];
    const watchedFetch = async (input: string | URL | Request, init?: RequestInit) => {
      sentAt.push(clock());
      const response = await fetch(input, init);
      onStatus(response.status);
      return response;
    };
    return { client: clientWith({ ...options, fetch: watchedFetch }), sentAt };
  }

  test('waits as long as a rate limited provider asked us to wait, then succeeds', async () => {
    rig.upstream.script(upstreamModel, [status429('1'), chatAnswer('at last')]);
    const { client, sentAt } = watched({ maxRetries: 1 });
    const completion = await client.chat.completions.create({ model: rig.model, messages: hello });
    expect(completion.choices[0]?.message.content).toBe('at last');
    const [first = 0, second = 0] = sentAt;
    // Left to itself the SDK would be back within half a second.
    expect(second - first).toBeGreaterThanOrEqual(1_000);
    expect(rig.upstream.requests).toHaveLength(2);
  });

  test('waits for a free place among the running requests of its account', async () => {
    const apiKey = await rig.gateway.makeTenant({
      id: 'busy',
      name: 'Busy',
      concurrent_requests: 1,
    });
    rig.upstream.script(upstreamModel, [
      gated('finish', 2, chatAnswer(words(4))),
      chatAnswer('my turn'),
    ]);
    const order = { model: rig.model, messages: hello };
    const running = await clientWith({ apiKey }).chat.completions.create({
      ...order,
      stream: true,
    });
    const chunks = Array.fromAsync(running);
    const statuses: number[] = [];
    const { client, sentAt } = watched({ apiKey, maxRetries: 2 }, (code) => {
      statuses.push(code);
      // The refused one is the reason why the running one may go on.
      if (code === 429) rig.upstream.open('finish');
    });
    const completion = await client.chat.completions.create(order);
    expect(completion.choices[0]?.message.content).toBe('my turn');
    expect([statuses[0], statuses.at(-1)]).toEqual([429, 200]);
    const [first = 0, second = 0] = sentAt;
    expect(second - first).toBeGreaterThanOrEqual(1_000);
    expect((await chunks).at(-1)?.choices[0]?.finish_reason).toBe('stop');
  });
});
