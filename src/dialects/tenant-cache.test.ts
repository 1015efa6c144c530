import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../tests/support/prompts.ts';
import { readMessagesRequest } from './anthropic/client/request.ts';
import { anthropicClientRequest } from './anthropic/client-request.ts';
import type { ClientRequest } from './dialect.ts';
import { readChatRequest } from './openai-chat/client/request.ts';
import { openAiClientRequest } from './openai-chat/client-request.ts';
import { readResponsesRequest } from './responses/client/request.ts';
import { responsesClientRequest } from './responses/client-request.ts';

type Fields = Record<string, unknown>;

function sourceOf(fields: object): [Fields, { text: string; bytes: Uint8Array }] {
  const text = JSON.stringify({ model: 'a/b', ...fields });
  return [JSON.parse(text) as Fields, { text, bytes: new TextEncoder().encode(text) }];
}

const messages = [{ role: 'user', content: 'Hi' }];

const clients: Record<string, (tenantId: string, fields: object) => ClientRequest> = {
  chat: (tenantId, fields) => {
    const [body, source] = sourceOf({ messages, ...fields });
    return openAiClientRequest(readChatRequest(body, source, false, tenantId));
  },
  responses: (tenantId, fields) => {
    const [body, source] = sourceOf({ input: 'Hi', ...fields });
    return responsesClientRequest(readResponsesRequest(body, source, tenantId));
  },
  messages: () => {
    const request = readMessagesRequest(...sourceOf({ max_tokens: 9, messages }));
    return anthropicClientRequest(request, new Headers());
  },
};

const dialects = ['openai', 'openai-responses'] as const;
const cases = Object.keys(clients).flatMap((client) =>
  dialects.map((dialect) => [client, dialect] as const),
);

function sent(client: string, dialect: (typeof dialects)[number], tenantId: string, fields = {}) {
  const adapter = clients[client]?.(tenantId, fields).adapterFor(dialect);
  const quirks = { tenant_cache_field: 'prompt_cache_key' } as const;
  const request = adapter?.write({ ...makeTarget(), quirks, tenantId });
  return {
    key: (JSON.parse(String(request?.body)) as Fields).prompt_cache_key,
    dropped: request?.dropped ?? [],
  };
}

describe('quirks.tenant_cache_field', () => {
  test.each(cases)('separates the tenants of %s clients at %s upstreams', (client, dialect) => {
    const { key } = sent(client, dialect, 'acme');
    expect(key).toMatch(/^[\w-]{43}$/);
    expect(sent(client, dialect, 'acme').key).toBe(key);
    expect(sent(client, dialect, 'bolt').key).not.toBe(key);
  });

  const keyed = cases.filter(([client]) => client !== 'messages');
  test.each(keyed)(
    "keeps a %s client's own cache keys apart at %s upstreams",
    (client, dialect) => {
      const [one, other] = ['one', 'other'].map((name) => ({ prompt_cache_key: name }));
      const first = sent(client, dialect, 'acme', one);
      expect(first.dropped).not.toContain('prompt_cache_key');
      expect(sent(client, dialect, 'acme', one).key).toBe(first.key);
      expect(sent(client, dialect, 'acme', other).key).not.toBe(first.key);
      expect(sent(client, dialect, 'bolt', one).key).not.toBe(first.key);
      expect(first.key).not.toBe(sent(client, dialect, 'acme').key);
    },
  );
});
