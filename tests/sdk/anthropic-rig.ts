/** One model served by an OpenAI-style provider and one by an Anthropic-style one. */
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { upstreamSecret as api_key, pricing, SdkRig } from './rig.ts';

/** The models and what the fake upstream calls them. */
export const served = [
  { by: 'an OpenAI-style provider', model: 'acme/open', upstreamModel: 'open-fp8' },
  { by: 'an Anthropic-style provider', model: 'acme/claude', upstreamModel: 'claude-x' },
] as const;
export type Served = (typeof served)[number];

export class AnthropicRig extends SdkRig {
  static async start(): Promise<AnthropicRig> {
    const upstream = startFakeUpstream();
    const base_url = `${upstream.url}/v1`;
    const endpoint = (provider: string, model: string) => [{ provider, model, pricing }];
    const settings = {
      providers: {
        open: { dialect: 'openai', base_url, api_key },
        claude: { dialect: 'anthropic', base_url, api_key },
      },
      models: [
        chatModel('acme/open', endpoint('open', 'open-fp8'), { created: 1_788_220_800 }),
        chatModel('acme/plain', endpoint('open', 'plain-up'), { features: ['tools'] }),
        chatModel('acme/claude', endpoint('claude', 'claude-x'), {
          thinking: 'adaptive',
          max_completion_tokens: 64_000,
        }),
      ],
    };
    return new AnthropicRig(upstream, await InProcessGateway.start(settings));
  }

  /** Without `/v1`, as Anthropic's own SDKs want it. */
  get baseURL(): string {
    return `${this.gateway.url}/v1/anthropic`;
  }
}
