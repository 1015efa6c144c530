/**
 * Who may open which door, written down by hand. The reference cannot say it: it is made from the
 * routes, and a route that was opened by mistake would be described as open.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { CheckedGateway } from '../support/checked-gateway.ts';

const scopes = ['chat', 'embeddings', 'audio', 'images', 'jobs', 'customer'] as const;
type Scope = (typeof scopes)[number];

/**
 * `anyone` needs no key. A scope is for routing keys that have it, `tenant` for every key of a
 * tenant, `customer+` for routing keys with that scope and for managers.
 */
type Who = 'anyone' | 'tenant' | 'customer+' | 'manager' | 'operator' | Scope;

const policy: Readonly<Record<Who, string>> = {
  anyone: `GET /  GET /api/hello  GET /healthz  GET /readyz  GET /metrics  GET /openapi.json
    GET /docs  GET /dashboard  GET /dashboard/{path}  GET /v1/objects/{key}`,
  tenant: `GET /v1/models  GET /v1/models/{id}  GET /v1/customer/models  GET /v1/generation
    GET /v1/key`,
  chat: `POST /v1/chat/completions  POST /v1/messages  POST /v1/messages/count_tokens
    POST /v1/anthropic/messages  POST /v1/anthropic/messages/count_tokens  POST /v1/responses`,
  embeddings: 'POST /v1/embeddings',
  audio: 'POST /v1/audio/speech  POST /v1/audio/transcriptions',
  images: 'POST /v1/images/edits  POST /v1/images/generations',
  jobs: 'POST /v1/jobs  GET /v1/jobs  GET /v1/jobs/{id}  DELETE /v1/jobs/{id}',
  customer: '',
  'customer+': `GET /v1/customer/logs  GET /v1/customer/logs/export.csv  GET /v1/customer/logs/{id}
    GET /v1/customer/analytics  GET /v1/customer/analytics/export.csv  GET /v1/customer/credits
    GET /v1/customer/billing/usage-statement.csv  GET /v1/customer/billing/statements
    GET /v1/customer/skills  GET /v1/customer/skills/{name}  PUT /v1/customer/skills/{name}
    DELETE /v1/customer/skills/{name}`,
  manager: `GET /api/v1/credits  GET /api/v1/webhook-secret  POST /api/v1/keys  GET /api/v1/keys
    GET /api/v1/keys/{id}  PATCH /api/v1/keys/{id}  DELETE /api/v1/keys/{id}
    POST /api/v1/keys/{id}/rotate  GET /api/v1/byok  GET /api/v1/byok/{provider}
    PUT /api/v1/byok/{provider}  DELETE /api/v1/byok/{provider}`,
  operator: `POST /admin/v1/tenants  GET /admin/v1/tenants  GET /admin/v1/tenants/{id}
    PATCH /admin/v1/tenants/{id}  POST /admin/v1/tenants/{id}/credits
    GET /admin/v1/tenants/{id}/credits  POST /admin/v1/tenants/{id}/keys  GET /admin/v1/overview
    GET /admin/v1/providers  GET /admin/v1/books`,
};

const rows = Object.entries(policy).flatMap(([who, routes]) =>
  routes
    .split(/\s{2,}/)
    .filter((route) => route !== '')
    .map((route) => [route, who as Who] as const),
);

let rig: CheckedGateway;
/** Every credential there is, by what it is. */
const keys = new Map<string, string | null>([
  ['nobody', null],
  ['guesser', 'sk-admin-0123456789abcdefghijklmnopqrstuvwxyz0123456789ab'],
]);
/** Those without one that counts. */
const strangers = new Set(['nobody', 'guesser', 'mistyped']);

beforeAll(async () => {
  rig = await CheckedGateway.start();
  for (const scope of scopes) keys.set(scope, await rig.gateway.makeKey({ scopes: [scope] }));
  keys.set('manager', rig.gateway.keys.management);
  keys.set('operator', rig.gateway.keys.admin);
  keys.set('mistyped', `${rig.gateway.keys.management}x`);
});
afterAll(() => rig.stop());

function mayPass(holder: string, who: Who): boolean {
  if (who === 'anyone' || holder === who) return true;
  if (who === 'tenant') return !strangers.has(holder) && holder !== 'operator';
  return who === 'customer+' && (holder === 'customer' || holder === 'manager');
}

test('every route has a row, and every row a route', () => {
  const routes = rig.api.operations.map(({ name }) => name);
  expect(rows.map(([route]) => route).toSorted()).toEqual(routes.toSorted());
});

test.each(rows)('%s is for %s', async (route, who) => {
  const path = route.replace(/^\w+ /, '').replace(/\{\w+\}/g, 'absent-0');
  const seen: Record<string, string> = {};
  const expected: Record<string, string> = {};
  for (const [holder, key] of keys) {
    const { status } = await rig.send(route, path, { key });
    // A link without its signature is refused to all alike; nothing about it depends on a key.
    const isClosed = status === 401 || (status === 403 && route !== 'GET /v1/objects/{key}');
    seen[holder] = isClosed ? String(status) : 'passes';
    expected[holder] = mayPass(holder, who) ? 'passes' : strangers.has(holder) ? '401' : '403';
  }
  expect(seen).toEqual(expected);
});
