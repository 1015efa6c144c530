/** One model served by an OpenAI-style provider and one by an Anthropic-style one. */
import { isObject } from '../../src/core/json.ts';
import { Awake } from '../support/awake.ts';
import { type BookEntry, type FakeUpstream, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

/** One credit per prompt token and two per completion token: sums that a reader can check. */
const pricing = { prompt: '1', completion: '2' };

/** The models and what the fake upstream calls them. */
export const served = [
  { by: 'an OpenAI-style provider', model: 'acme/open', upstreamModel: 'open-fp8' },
  { by: 'an Anthropic-style provider', model: 'acme/claude', upstreamModel: 'claude-x' },
] as const;
export type Served = (typeof served)[number];

export class AnthropicRig {
  readonly upstream: FakeUpstream;
  readonly gateway: InProcessGateway;
  readonly awake = new Awake();

  static async start(): Promise<AnthropicRig> {
    const upstream = startFakeUpstream();
    const base_url = `${upstream.url}/v1`;
    const api_key = 'upstream-account-secret';
    const endpoint = (provider: string, model: string) => [{ provider, model, pricing }];
    const settings = {
      providers: {
        open: { dialect: 'openai', base_url, api_key },
        claude: { dialect: 'anthropic', base_url, api_key },
      },
      models: [
        chatModel('acme/open', endpoint('open', 'open-fp8'), { created: 1_788_220_800 }),
        chatModel('acme/claude', endpoint('claude', 'claude-x'), {
          thinking: 'adaptive',
          max_completion_tokens: 64_000,
        }),
      ],
    };
    return new AnthropicRig(upstream, await InProcessGateway.start(settings));
  }

  private constructor(upstream: FakeUpstream, gateway: InProcessGateway) {
    this.upstream = upstream;
    this.gateway = gateway;
  }

  async stop(): Promise<void> {
    this.awake[Symbol.dispose]();
    await this.gateway.stop();
    this.upstream.stop();
  }

  /** Without `/v1`, as Anthropic's own SDKs want it. */
  get baseURL(): string {
    return `${this.gateway.url}/v1/anthropic`;
  }

  get apiKey(): string {
    return this.gateway.keys.routing;
  }

  get lastAsked(): BookEntry {
    const entry = this.upstream.book.at(-1);
    if (!entry) throw new Error('nothing has reached the upstream');
    return entry;
  }

  get lastBody(): Record<string, unknown> {
    const { json } = this.lastAsked;
    if (!isObject(json)) throw new Error('the upstream was sent no JSON object');
    return json;
  }

  /** How long after `leftAt`, on `awake`, the upstream saw its client go. */
  async hangUpMs(leftAt: number): Promise<number> {
    await this.upstream.until((book) => book.find(({ outcome }) => outcome === 'client-left'));
    return this.awake.ms - leftAt;
  }
}
