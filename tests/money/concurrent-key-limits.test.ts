/** Concurrent requests of 2 keys. Neither the keys' limits nor the wallet cover all of them. */
import { expect, test } from 'bun:test';
import { makeByokTenant } from '../support/byok.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

test('a key that exceeds its limit does not use up the credits of other keys', async () => {
  const upstream = startFakeUpstream();
  upstream.script('chat', chatAnswer('hi'));
  const pricing = { prompt: '0', completion: '0', request: '0.0001' };
  const gateway = await InProcessGateway.start({
    providers: {
      fake: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' },
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
    const post20 = (key: string) => Promise.all(Array.from({ length: 20 }, () => call(key)));
    const answers = await Promise.all([post20(small), post20(large)]);
    const answered = answers.map((all) => all.filter(({ status }) => status === 200).length);
    // At 100 credits each, the limits cover 3 and 5 requests and leave 200 in the wallet.
    expect(answered).toEqual([3, 5]);
    for (const { status, error } of answers.flat().filter((answer) => answer.status !== 200)) {
      expect([status, String(error.message).startsWith('This key')]).toEqual([402, true]);
    }
    await gateway.get('/v1/customer/logs', { key: tenant.key });
    expect(await gateway.store.creditStore.balance('levels')).toMatchObject({ balance: 200 });
  } finally {
    await gateway.stop();
    upstream.stop();
  }
});
