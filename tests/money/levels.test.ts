/** A wallet and the limits of its keys, all of them short, and everybody at once. */
import { expect, test } from 'bun:test';
import { makeByokTenant } from '../support/byok.ts';
import { say, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

test('a key over its limit takes nothing from the keys beside it', async () => {
  const upstream = startFakeUpstream();
  upstream.script('chat', say('hi'));
  const pricing = { prompt: '0', completion: '0', request: '0.0001' };
  const gateway = await InProcessGateway.start({
    providers: {
      fake: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' },
    },
    models: [chatModel('test/hundred', [{ provider: 'fake', model: 'chat', pricing }])],
  });
  try {
    const tenant = await makeByokTenant(gateway, 'levels', 1_000);
    const keyOf = async (limit: number) =>
      String((await tenant.manage('POST', '/api/v1/keys', { name: 'k', limit })).json.key);
    const [small, large] = [await keyOf(300), await keyOf(500)];
    const messages = [{ role: 'user', content: 'hi' }];
    const call = (key: string) => gateway.post({ model: 'test/hundred', messages }, { key });
    const twenty = (key: string) => Promise.all(Array.from({ length: 20 }, () => call(key)));
    const answers = await Promise.all([twenty(small), twenty(large)]);
    const good = answers.map((all) => all.filter(({ status }) => status === 200).length);
    // A hundred credits each: three and five of them, with 200 left in the wallet.
    expect(good).toEqual([3, 5]);
    for (const { status, error } of answers.flat().filter((answer) => answer.status !== 200)) {
      expect([status, String(error.message).startsWith('This API key')]).toEqual([402, true]);
    }
    await gateway.get('/v1/customer/logs', { key: tenant.key });
    expect(await gateway.store.creditBook.balance('levels')).toMatchObject({ balance: 200 });
  } finally {
    await gateway.stop();
    upstream.stop();
  }
});
