/**
 * Lists by hand who may call which route. The API reference can't be the source: it is generated
 * from the routes, so a route made public by mistake would be documented as public.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { CheckedGateway } from '../support/checked-gateway.ts';

const scopes = ['chat', 'embeddings', 'audio', 'images', 'jobs', 'customer'] as const;
type Scope = (typeof scopes)[number];

/**
 * `anyone` needs no key. A scope requires a routing key with that scope. `tenant` requires any key
 * of a tenant, and `customer+` a management key or a routing key with the scope `customer`.
 */
type Access = 'anyone' | 'tenant' | 'customer+' | 'manager' | 'operator' | Scope;

const policy: Readonly<Record<Access, string>> = {
  anyone: `GET /  GET /api/hello  GET /healthz  GET /readyz  GET /metrics  GET /openapi.json
    GET /docs  GET /dashboard  GET /dashboard/{path}  GET /v1/objects/{key}`,
  tenant: `GET /v1/models  GET /v1/models/{id}  GET /v1/customer/models  GET /v1/generation
    GET /v1/key  POST /v1/route/explain`,
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
  manager: `GET /api/v1/credits  GET /api/v1/webhook-secret  POST /api/v1/webhook-secret/rotate
    POST /api/v1/keys  GET /api/v1/keys
    GET /api/v1/keys/{id}  PATCH /api/v1/keys/{id}  DELETE /api/v1/keys/{id}
    POST /api/v1/keys/{id}/rotate  GET /api/v1/byok  GET /api/v1/byok/{provider}
    PUT /api/v1/byok/{provider}  DELETE /api/v1/byok/{provider}`,
  operator: `POST /admin/v1/tenants  GET /admin/v1/tenants  GET /admin/v1/tenants/{id}
    PATCH /admin/v1/tenants/{id}  POST /admin/v1/tenants/{id}/credits
    GET /admin/v1/tenants/{id}/credits  POST /admin/v1/tenants/{id}/keys
    GET /admin/v1/tenants/{id}/keys  GET /admin/v1/tenants/{id}/keys/{key_id}
    PATCH /admin/v1/tenants/{id}/keys/{key_id}  DELETE /admin/v1/tenants/{id}/keys/{key_id}
    POST /admin/v1/tenants/{id}/keys/{key_id}/rotate  GET /admin/v1/overview
    GET /admin/v1/accounting  GET /admin/v1/providers  GET /admin/v1/providers/{name}
    PUT /admin/v1/providers/{name}  PATCH /admin/v1/providers/{name}
    DELETE /admin/v1/providers/{name}  POST /admin/v1/providers/{name}/test
    POST /admin/v1/providers/{name}/rotate
    GET /admin/v1/models  GET /admin/v1/models/{name}  PUT /admin/v1/models/{name}
    PATCH /admin/v1/models/{name}  DELETE /admin/v1/models/{name}  GET /admin/v1/aliases
    GET /admin/v1/aliases/{name}  PUT /admin/v1/aliases/{name}
    PATCH /admin/v1/aliases/{name}  DELETE /admin/v1/aliases/{name}  GET /admin/v1/settings
    GET /admin/v1/settings/{name}  PUT /admin/v1/settings/{name}
    PATCH /admin/v1/settings/{name}  DELETE /admin/v1/settings/{name}
    GET /admin/v1/prices  POST /admin/v1/prices  GET /admin/v1/prices/{name}
    PUT /admin/v1/prices/{name}  PATCH /admin/v1/prices/{name}  DELETE /admin/v1/prices/{name}
    GET /admin/v1/plans  GET /admin/v1/plans/{name}  PUT /admin/v1/plans/{name}
    PATCH /admin/v1/plans/{name}  DELETE /admin/v1/plans/{name}
    POST /admin/v1/route/explain  GET /admin/v1/audit  GET /admin/v1/audit/export.csv
    POST /admin/v1/audit/{id}/restore  GET /admin/v1/requests/{id}`,
};

const rows = Object.entries(policy).flatMap(([access, routes]) =>
  routes
    .split(/\s{2,}/)
    .filter((route) => route !== '')
    .map((route) => [route, access as Access] as const),
);

let rig: CheckedGateway;
/** All kinds of credentials. */
const keys = new Map<string, string | null>([
  ['nobody', null],
  ['guesser', 'sk-admin-0123456789abcdefghijklmnopqrstuvwxyz0123456789ab'],
]);
/** Callers without a valid credential. */
const unauthenticated = new Set(['nobody', 'guesser', 'mistyped']);

beforeAll(async () => {
  rig = await CheckedGateway.start();
  for (const scope of scopes) keys.set(scope, await rig.gateway.makeKey({ scopes: [scope] }));
  keys.set('manager', rig.gateway.keys.management);
  keys.set('operator', rig.gateway.keys.admin);
  keys.set('mistyped', `${rig.gateway.keys.management}x`);
});
afterAll(() => rig.stop());

function mayCall(caller: string, access: Access): boolean {
  if (access === 'anyone' || caller === access) return true;
  if (access === 'tenant') return !unauthenticated.has(caller) && caller !== 'operator';
  return access === 'customer+' && (caller === 'customer' || caller === 'manager');
}

test('the access table lists exactly the existing routes', () => {
  const routes = rig.api.operations.map(({ name }) => name);
  expect(rows.map(([route]) => route).toSorted()).toEqual(routes.toSorted());
});

test.each(rows)('%s is accessible to %s only', async (route, access) => {
  const path = route.replace(/^\w+ /, '').replace(/\{\w+\}/g, 'absent-0');
  const actual: Record<string, string> = {};
  const expected: Record<string, string> = {};
  for (const [caller, key] of keys) {
    const { status } = await rig.send(route, path, { key });
    // A link without a signature returns 403 to every caller.
    const isDenied = status === 401 || (status === 403 && route !== 'GET /v1/objects/{key}');
    actual[caller] = isDenied ? String(status) : 'allowed';
    expected[caller] = mayCall(caller, access)
      ? 'allowed'
      : unauthenticated.has(caller)
        ? '401'
        : '403';
  }
  expect(actual).toEqual(expected);
});
