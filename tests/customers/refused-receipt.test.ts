/** What a tenant reads later of a request that was refused: the sentence, and none of its words. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { unknownModelNamesMax } from '../../src/core/bounds.ts';
import { isObject } from '../../src/core/json.ts';
import { type Answer, type Gateway, startGateway } from '../support/gateway.ts';

const testMs = 120_000;
const canary = 'Xylophon-4711';
let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({ config: { demo: true, catalogue: 'none' } });
}, testMs);
afterAll(() => gateway.stop());

/** What the client was told, and what the receipt says. */
async function toldOf(answer: Answer): Promise<{ readonly now: unknown; readonly later: unknown }> {
  const id = answer.headers.get('x-request-id');
  const { body } = await gateway.call('GET', `/v1/customer/logs/${id}`, { key: gateway.keys.api });
  return { now: answer.error.message, later: isObject(body.data) ? body.data.failure : undefined };
}

const messages = [{ role: 'user', content: canary }];

test(
  'the receipt repeats the sentence of the refusal',
  async () => {
    const unknown = await toldOf(await gateway.chat({ model: 'demo/chta', messages }));
    expect(unknown.later).toBe('There is no model "demo/chta"; did you mean "demo/chat"?');
    expect(unknown.later).toBe(unknown.now);

    const unable = await toldOf(await gateway.chat({ model: 'demo/embed', messages }));
    expect(unable.later).toBe('The model "demo/embed" is not a chat model.');

    const missing = await toldOf(await gateway.chat({ model: 'demo/chat' }));
    expect(missing.later).toBe(missing.now);
    expect(missing.later).toStartWith('messages ');

    const made = await gateway.manage('POST', '/api/v1/keys', { name: 'poor', limit: 1 });
    const key = String(made.body.key);
    const poor = await toldOf(await gateway.chat({ model: 'demo/chat', messages }, { key }));
    expect(poor.later).toContain('1 credit left; the request needs at least 9.');
    expect(poor.later).toBe(poor.now);
  },
  testMs,
);

test(
  'it tells a name that no model has, though the log calls one too many of them unknown',
  async () => {
    const made = await gateway.admin('POST', '/admin/v1/tenants', { name: 'Typists' });
    const path = `/admin/v1/tenants/${isObject(made.body.data) ? made.body.data.id : ''}/keys`;
    const key = String((await gateway.admin('POST', path, { name: 'typo' })).body.key);
    const ask = (model: string) => gateway.chat({ model, messages }, { key });
    for (let at = 0; at < unknownModelNamesMax; at += 1) await ask(`acme/typo-${at}`);
    const last = await ask('acme/one-more');
    const read = async (what: string) => (await gateway.call('GET', what, { key })).body;
    const { logs } = await read('/v1/customer/logs?limit=2');
    expect(logs).toMatchObject([{ model: 'unknown' }, { model: 'acme/typo-99' }]);
    const { data } = await read(`/v1/customer/logs/${last.headers.get('x-request-id')}`);
    expect(JSON.stringify(data)).toContain('There is no model \\"acme/one-more\\"');
    // Of a model that there is, the name stays: this tenant has no credits yet.
    expect((await ask('demo/chat')).status).toBe(402);
    // The model of this one is written down before its wish for a search is refused.
    expect((await ask('demo/chat:online')).status).toBe(400);
    const kept = await read('/v1/customer/logs?limit=2');
    expect(kept.logs).toMatchObject([{ model: 'demo/chat:online' }, { model: 'demo/chat' }]);
  },
  testMs,
);

test(
  'it keeps at most 200 characters',
  async () => {
    const logit_bias = { ['long'.repeat(200)]: true };
    const chat = { model: 'demo/chat', messages, logit_bias };
    const { now, later } = await toldOf(await gateway.chat(chat));
    expect(String(now).length).toBeGreaterThan(800);
    expect(later).toBe(String(now).slice(0, 200));
  },
  testMs,
);

test(
  'words of a prompt that a refusal quotes are told to its client and kept nowhere',
  async () => {
    const chat = { model: 'demo/chat', messages };
    const cases: readonly [object | string, string][] = [
      [{ ...chat, messages: canary }, 'messages must be a list.'],
      [{ ...chat, messages: [{ role: canary, content: 'a' }] }, 'messages[0].role must be one of '],
      [{ ...chat, max_tokens: canary }, 'max_tokens must be a whole number'],
      [{ ...chat, response_format: { type: canary } }, 'response_format.type must be one of '],
      [`{"model": "demo/chat", "messages": ${canary}}`, "The request body isn't valid JSON."],
    ];
    for (const [body, start] of cases) {
      const call = { key: gateway.keys.api, body };
      const answer = await gateway.call('POST', '/v1/chat/completions', call);
      expect(answer.status).toBe(400);
      const { later } = await toldOf(answer);
      expect(later).toStartWith(start);
    }
    await gateway.stop();
    const files = readdirSync(gateway.dataDir, { recursive: true, withFileTypes: true });
    const kept = files.filter((file) => file.isFile()).map((f) => join(f.parentPath, f.name));
    expect(kept.some((path) => path.endsWith('tollgate.db'))).toBe(true);
    const withWords = kept.filter((path) => readFileSync(path).includes(canary.slice(0, 8)));
    expect(withWords).toEqual([]);
  },
  testMs,
);
