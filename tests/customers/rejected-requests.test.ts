/** A rejected request's receipt shows the error message without text from the prompt. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { unknownModelNamesMax } from '../../src/core/bounds.ts';
import { isObject } from '../../src/core/json.ts';
import { type Answer, type Gateway, startGateway } from '../support/gateway.ts';

const testMs = 120_000;
const secretText = 'Xylophon-4711';
let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({ config: { demo: true, catalogue: 'none' } });
}, testMs);
afterAll(() => gateway.stop());

/** Returns the error message in the response and in the receipt. */
async function messagesOf(
  answer: Answer,
): Promise<{ readonly response: unknown; readonly receipt: unknown }> {
  const id = answer.headers.get('x-request-id');
  const { body } = await gateway.call('GET', `/v1/customer/logs/${id}`, { key: gateway.keys.api });
  return {
    response: answer.error.message,
    receipt: isObject(body.data) ? body.data.failure : undefined,
  };
}

const messages = [{ role: 'user', content: secretText }];

test(
  'a receipt shows the error message of a rejected request',
  async () => {
    const unknown = await messagesOf(await gateway.chat({ model: 'demo/chta', messages }));
    expect(unknown.receipt).toBe('There is no model "demo/chta"; did you mean "demo/chat"?');
    expect(unknown.receipt).toBe(unknown.response);

    const unable = await messagesOf(await gateway.chat({ model: 'demo/embed', messages }));
    expect(unable.receipt).toBe('The model "demo/embed" is not a chat model.');

    const missing = await messagesOf(await gateway.chat({ model: 'demo/chat' }));
    expect(missing.receipt).toBe(missing.response);
    expect(missing.receipt).toStartWith('messages ');

    const created = await gateway.manage('POST', '/api/v1/keys', { name: 'poor', limit: 1 });
    const key = String(created.body.key);
    const poor = await messagesOf(await gateway.chat({ model: 'demo/chat', messages }, { key }));
    expect(poor.receipt).toContain('1 credit left; the request needs at least 9.');
    expect(poor.receipt).toBe(poor.response);
  },
  testMs,
);

test(
  'a receipt shows an unknown model name even if the log records it as "unknown"',
  async () => {
    const created = await gateway.admin('POST', '/admin/v1/tenants', { name: 'Typists' });
    const tenantId = isObject(created.body.data) ? created.body.data.id : '';
    const keysPath = `/admin/v1/tenants/${tenantId}/keys`;
    const key = String((await gateway.admin('POST', keysPath, { name: 'typo' })).body.key);
    const chat = (model: string) => gateway.chat({ model, messages }, { key });
    for (let index = 0; index < unknownModelNamesMax; index += 1) await chat(`acme/typo-${index}`);
    const last = await chat('acme/one-more');
    const read = async (path: string) => (await gateway.call('GET', path, { key })).body;
    const { logs } = await read('/v1/customer/logs?limit=2');
    expect(logs).toMatchObject([{ model: 'unknown' }, { model: 'acme/typo-99' }]);
    const { data } = await read(`/v1/customer/logs/${last.headers.get('x-request-id')}`);
    expect(JSON.stringify(data)).toContain('There is no model \\"acme/one-more\\"');
    // The name of an existing model is recorded. This tenant has no credits yet.
    expect((await chat('demo/chat')).status).toBe(402);
    // The model name is recorded before the request's web search is rejected.
    expect((await chat('demo/chat:online')).status).toBe(400);
    const latest = await read('/v1/customer/logs?limit=2');
    expect(latest.logs).toMatchObject([{ model: 'demo/chat:online' }, { model: 'demo/chat' }]);
  },
  testMs,
);

test(
  'a receipt shows at most 200 characters of the error message',
  async () => {
    const logit_bias = { ['long'.repeat(200)]: true };
    const chat = { model: 'demo/chat', messages, logit_bias };
    const { response, receipt } = await messagesOf(await gateway.chat(chat));
    expect(String(response).length).toBeGreaterThan(800);
    expect(receipt).toBe(String(response).slice(0, 200));
  },
  testMs,
);

test(
  'prompt text quoted in an error message is sent to the client but never stored',
  async () => {
    const chat = { model: 'demo/chat', messages };
    const cases: readonly [object | string, string][] = [
      [{ ...chat, messages: secretText }, 'messages must be a list.'],
      [
        { ...chat, messages: [{ role: secretText, content: 'a' }] },
        'messages[0].role must be one of ',
      ],
      [{ ...chat, max_tokens: secretText }, 'max_tokens must be a whole number'],
      [{ ...chat, response_format: { type: secretText } }, 'response_format.type must be one of '],
      [`{"model": "demo/chat", "messages": ${secretText}}`, "The request body isn't valid JSON."],
    ];
    for (const [body, start] of cases) {
      const call = { key: gateway.keys.api, body };
      const answer = await gateway.call('POST', '/v1/chat/completions', call);
      expect(answer.status).toBe(400);
      const { receipt } = await messagesOf(answer);
      expect(receipt).toStartWith(start);
    }
    await gateway.stop();
    const files = readdirSync(gateway.dataDir, { recursive: true, withFileTypes: true });
    const paths = files.filter((file) => file.isFile()).map((f) => join(f.parentPath, f.name));
    expect(paths.some((path) => path.endsWith('tollgate.db'))).toBe(true);
    const withSecretText = paths.filter((path) =>
      readFileSync(path).includes(secretText.slice(0, 8)),
    );
    expect(withSecretText).toEqual([]);
  },
  testMs,
);
