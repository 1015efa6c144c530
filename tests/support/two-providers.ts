import type { FakeUpstream } from './fake-upstream.ts';
import { chatModel } from './in-process.ts';

/** 1 credit per input token and 2 per output token. */
export const pricing = { prompt: '1', completion: '2' };

/** Configures a model with one provider, and a model with a second provider for fallback. */
export function twoProviders({ url }: FakeUpstream) {
  const fake = { dialect: 'openai', base_url: `${url}/v1`, api_key: 'sk-theirs-012345' };
  return {
    providers: { first: fake, second: fake },
    models: [
      chatModel('test/chat', [{ provider: 'first', model: 'chat', pricing }]),
      chatModel('test/two', [
        { provider: 'first', model: 'broken', priority: 0, pricing },
        { provider: 'second', model: 'works', priority: 1, pricing },
      ]),
    ],
  };
}
