/** The gateway that all test suites with official SDKs share. */
import { beforeEach } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { ActiveClock } from './active-clock.ts';
import { type FakeUpstream, type LoggedRequest, startFakeUpstream } from './fake-upstream.ts';
import { chatModel, InProcessGateway } from './in-process.ts';

/** The model of most tests, and its name at the fake upstream. */
export const modelId = 'acme/large';
export const upstreamModel = 'large-fp8';
export const upstreamSecret = 'upstream-account-secret';

/** One model at an OpenAI provider and one at an Anthropic provider. */
export const modelsByDialect = [
  { dialect: 'OpenAI', model: 'acme/open', upstreamModel: 'open-fp8' },
  { dialect: 'Anthropic', model: 'acme/claude', upstreamModel: 'claude-x' },
] as const;
export type DialectModel = (typeof modelsByDialect)[number];

/** 1 credit per input token and 2 per output token. */
const pricing = { prompt: '1', completion: '2' };

let shared: Promise<SdkGateway> | undefined;

/**
 * Returns the gateway that all test files of this process share, and resets its upstream before
 * each test of the calling file. It runs until the process ends.
 */
export async function useSdkGateway(): Promise<SdkGateway> {
  shared ??= SdkGateway.start();
  const sdk = await shared;
  beforeEach(() => sdk.upstream.reset());
  return sdk;
}

class SdkGateway {
  readonly upstream: FakeUpstream;
  readonly gateway: InProcessGateway;
  readonly activeClock = new ActiveClock();

  private constructor(upstream: FakeUpstream, gateway: InProcessGateway) {
    this.upstream = upstream;
    this.gateway = gateway;
  }

  static async start(): Promise<SdkGateway> {
    const upstream = startFakeUpstream();
    const base_url = `${upstream.url}/v1`;
    const provider = (dialect: string) => ({ dialect, base_url, api_key: upstreamSecret });
    const gateway = await InProcessGateway.start({
      demo: true,
      limits: { requests_per_minute: 100_000 },
      providers: { fake: provider('openai'), claude: provider('anthropic') },
      models: [...chatModels, ...mediaModels],
    });
    return new SdkGateway(upstream, gateway);
  }

  /** Options of OpenAI's SDK. Retries are off unless a test needs them. */
  get openAiOptions() {
    return { apiKey: this.apiKey, baseURL: `${this.gateway.url}/v1`, maxRetries: 0 };
  }

  /** Options of Anthropic's SDK, which appends `/v1` itself. */
  get anthropicOptions() {
    return { apiKey: this.apiKey, baseURL: this.anthropicBaseURL, maxRetries: 0 };
  }

  get anthropicBaseURL(): string {
    return `${this.gateway.url}/v1/anthropic`;
  }

  get apiKey(): string {
    return this.gateway.keys.routing;
  }

  /** The last request that reached the upstream. */
  get lastRequest(): LoggedRequest {
    const entry = this.upstream.requests.at(-1);
    if (!entry) throw new Error('No request has reached the upstream.');
    return entry;
  }

  /** The JSON body of the last request that reached the upstream. */
  get lastBody(): Record<string, unknown> {
    const { json } = this.lastRequest;
    if (!isObject(json)) throw new Error('The last request has no JSON object.');
    return json;
  }

  /** Returns what `/v1/generation` reports about a request, by its request ID or answer ID. */
  async generation(id: string | null | undefined): Promise<Record<string, unknown>> {
    const { json } = await this.gateway.get(`/v1/generation?id=${id}`);
    return isObject(json.data) ? json.data : {};
  }

  /** Waits until the gateway disconnects from the upstream. Returns the time since `abortedAt`. */
  async disconnectMs(abortedAt: number): Promise<number> {
    await this.upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    return this.activeClock.ms - abortedAt;
  }
}

const endpointAt = (provider: string, name: string) => [{ provider, model: name, pricing }];

const chatModels = [
  chatModel(modelId, endpointAt('fake', upstreamModel)),
  chatModel('acme/plain', endpointAt('fake', 'plain'), {
    input_modalities: ['text'],
    features: [],
  }),
  chatModel('acme/tools', endpointAt('fake', 'tools'), { features: ['tools'] }),
  chatModel('acme/open', endpointAt('fake', 'open-fp8'), { created: 1_788_220_800 }),
  chatModel('acme/claude', endpointAt('claude', 'claude-x'), {
    thinking: 'adaptive',
    max_completion_tokens: 64_000,
  }),
];

const mediaModels = [
  mediaModel('embed', ['embeddings'], { prompt: '1' }),
  mediaModel('image', ['image_edit', 'image_generation'], { prompt: '2', completion: '4' }),
  mediaModel('no-edit', ['image_generation'], { output_image: '0.04' }),
];

function mediaModel(name: string, features: string[], prices: object): object {
  return {
    id: `acme/${name}`,
    name: `acme/${name}`,
    input_modalities: ['text', 'image'],
    output_modalities: ['image'],
    features,
    endpoints: [{ provider: 'fake', model: `upstream-${name}`, pricing: prices }],
  };
}

/** Unix milliseconds with fractions, like the times of the upstream's log. */
export function clock(): number {
  return performance.timeOrigin + performance.now();
}

/** Returns the error that a promise of an SDK rejects with. */
export async function rejectionOf(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("The promise didn't reject.");
}

/** Returns a field that is missing in the types of an SDK. */
export function fieldOf(value: object | null | undefined, name: string): unknown {
  return Object.entries(value ?? {}).find(([key]) => key === name)?.[1];
}

/** A PNG of 1 pixel. */
export const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk' +
  'YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
