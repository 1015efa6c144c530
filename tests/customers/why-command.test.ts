/** `tollgate why` explains one request next to a running gateway. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject, parseJson } from '../../src/core/json.ts';
import {
  chatAnswer,
  type FakeUpstream,
  replay,
  startFakeUpstream,
  status,
} from '../support/fake-upstream.ts';
import { type Answer, type Gateway, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;
const messages = [{ role: 'user', content: 'Hello!' }];

let upstream: FakeUpstream;
let gateway: Gateway;

beforeAll(async () => {
  upstream = startFakeUpstream();
  const { url } = upstream;
  const prices = { prompt: '0.3', completion: '0.7' };
  gateway = await startGateway({
    upstreams: {
      first: { url, models: { 'test/two': { name: 'broken', ...prices } } },
      second: { url, models: { 'test/two': { name: 'works', ...prices } } },
      third: { url, models: { 'test/unpaid': { name: 'unpaid' }, 'test/page': { name: 'page' } } },
    },
  });
  upstream.script('broken', status(503, 'Too \u001b[2Jbusy'));
  upstream.script('unpaid', status(401, 'Acme Ltd owes us 4,711 dollars.'));
  upstream.script('page', replay('<h1>squid-3.inner is busy</h1>'));
  upstream.script('works', chatAnswer('Good day', { usage: { prompt: 101, completion: 7 } }));
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
  upstream?.stop();
}, timeoutMs);

const idOf = ({ headers }: Answer) => headers.get('x-request-id') ?? '';

async function explain(id: string): Promise<string> {
  const { exitCode, stdout, stderr } = await gateway.command('why', id);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return stdout;
}

/** Returns the amounts of the charge section, top to bottom. */
function amountsOf(text: string): number[] {
  const [, section = ''] = text.split(/^CHARGE .*\n/m);
  const [rows = ''] = section.split('\n\n');
  return rows
    .trimEnd()
    .split('\n')
    .map((row) => Number(/ (-?[\d.]+)$/.exec(row)?.[1]));
}

describe('tollgate why', () => {
  test(
    'shows the caller, every attempt, and lines that add up to the charge',
    async () => {
      const answer = await gateway.chat({ model: 'test/two', messages, user: 'ann' });
      expect(answer.status).toBe(200);
      const text = await explain(idOf(answer));
      expect(text).toContain(`request      ${idOf(answer)}\n`);
      expect(text).toMatch(/^when {9}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/m);
      expect(text).toMatch(/^tenant {7}Default \(default\)$/m);
      expect(text).toMatch(/^key {10}\S.* \(sk-tg-\S+, key_\w+\)$/m);
      expect(text).toMatch(/^requested {4}test\/two, chat$/m);
      expect(text).toMatch(/^end user {5}ann$/m);
      expect(text).toMatch(/^answered by {2}second, test\/two$/m);
      expect(text).toMatch(/^ended {8}complete, finish reason "stop"$/m);
      expect(text).toMatch(/^first byte {3}[\d,]+ ms after the attempt started$/m);
      expect(text).toMatch(/^ +1 +first +test\/two +overloaded +503 +[\d,]+ ms +Too {2}\[2Jbusy$/m);
      expect(text).toMatch(/^ +2 +second +test\/two +answered +200 +[\d,]+ ms$/m);
      expect(text).toMatch(/^input tokens +101$/m);
      expect(text).toMatch(/^output tokens +7$/m);
      expect(text).toMatch(/^prompt +101 × \$0\.3 per million +30\.3$/m);
      expect(text).toMatch(/^completion +7 × \$0\.7 per million +4\.9$/m);
      expect(text).toMatch(/^rounded up once +0\.8$/m);
      // 30.3 + 4.9 is 35.2, so 36 whole credits.
      expect(amountsOf(text)).toEqual([30.3, 4.9, 0.8, 36]);
      expect(text).not.toContain('\u001b');
    },
    timeoutMs,
  );

  test(
    'accepts every ID of a request and prints the same as JSON',
    async () => {
      const answer = await gateway.call('POST', '/v1/messages', {
        key: gateway.keys.api,
        body: { model: 'test/two', max_tokens: 50, messages },
      });
      const id = idOf(answer);
      expect(String(answer.body.id)).toStartWith('msg_');
      const output = await explain(id);
      expect(await explain(String(answer.body.id))).toBe(output);
      expect(await explain(`chatcmpl-${id.replaceAll('-', '')}`)).toBe(output);
      const { stdout } = await gateway.command('why', id, '--json');
      const parsed = parseJson(stdout);
      const { data } = isObject(parsed) ? parsed : {};
      const path = `/v1/customer/logs/${id}`;
      const { body } = await gateway.call('GET', path, { key: gateway.keys.api });
      expect(data).toMatchObject(isObject(body.data) ? body.data : { receipt: 'missing' });
      expect(data).toMatchObject({ cost: 36, tenant: { id: 'default', name: 'Default' } });
    },
    timeoutMs,
  );

  test(
    'shows why a request failed and that it costs nothing',
    async () => {
      const rejected = await gateway.chat({ model: 'test/none', messages });
      expect(rejected.status).toBe(404);
      const text = await explain(idOf(rejected));
      const sentence = 'There is no model "test/none"; GET /v1/models lists the available models.';
      expect(text).toMatch(
        new RegExp(`^ended +invalid_request_error\\. ${RegExp.escape(sentence)}$`, 'm'),
      );
      expect(text).toContain('\n\nThe request was not sent to a provider.\n\n');
      expect(amountsOf(text)).toEqual([0]);
    },
    timeoutMs,
  );

  test.each([
    ['test/unpaid', 'credential', 401, 'Acme Ltd owes us 4,711 dollars.'],
    ['test/page', 'malformed', null, 'squid-3.inner is busy'],
  ])(
    'shows the error message of the provider of %s, which its tenant cannot see',
    async (model, outcome, status, message) => {
      const rejected = await gateway.chat({ model, messages });
      expect(rejected.status).toBe(502);
      const path = `/v1/customer/logs/${idOf(rejected)}`;
      const { body } = await gateway.call('GET', path, { key: gateway.keys.api });
      expect(body.data).toMatchObject({ attempts: [{ outcome, status, message: null }] });
      expect(JSON.stringify([rejected.text, body])).not.toContain(message);
      expect(await explain(idOf(rejected))).toContain(message);
    },
    timeoutMs,
  );

  test(
    "shows credits written off because the wallet couldn't cover them",
    async () => {
      await gateway.admin('POST', '/admin/v1/tenants', { id: 'poor', name: 'Poor' });
      const { stdout } = await gateway.command(
        ...['keys', 'create', '--tenant', 'poor', '--name', 'last', '--json'],
      );
      const created = parseJson(stdout);
      await gateway.command('credits', 'grant', '--tenant', 'poor', '--amount', '30');
      const answer = await gateway.chat(
        { model: 'test/two', messages, max_tokens: 5 },
        { key: isObject(created) ? String(created.key) : '' },
      );
      expect(answer.status).toBe(200);
      const text = await explain(idOf(answer));
      // 36 credits were used, but the wallet had only 30.
      expect(amountsOf(text)).toEqual([30.3, 4.9, 0.8, -6, 30]);
      expect(text).toEndWith(
        "6 credits were written off because the wallet couldn't cover them.\n",
      );
    },
    timeoutMs,
  );

  test(
    'prints one sentence for an unknown ID',
    async () => {
      for (const id of ['nonsense', '00000000-0000-4000-8000-000000000000']) {
        expect(await gateway.command('why', id)).toMatchObject({
          exitCode: 1,
          stdout: '',
          stderr: 'There is no request with this ID.\n',
        });
      }
      const { exitCode, stderr } = await gateway.command('why');
      expect({ exitCode, stderr }).toEqual({
        exitCode: 2,
        stderr: '<request id> is missing. See "tollgate why --help".\n',
      });
    },
    timeoutMs,
  );
});
