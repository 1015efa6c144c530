import type { FakeUpstream } from './fake-upstream.ts';
import { chatModel } from './in-process.ts';

/** One credit per input token, two per output token. */
export const pricing = { prompt: '1', completion: '2' };

/** Two models: one that answers, and one whose first provider may fail while its second answers. */
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
