/** Creates tenants with their own provider keys on an in-process gateway. */
import { isObject } from '../../src/core/json.ts';
import { type InProcessGateway, type Reply, readReply } from './in-process.ts';

export interface ByokTenant {
  readonly id: string;
  /** The tenant's routing key. */
  readonly key: string;
  setProviderKey(provider: string, credential: object): Promise<Reply>;
  manage(method: string, path: string, body?: object): Promise<Reply>;
  chat(body?: object): Promise<Reply>;
}

const hello = { model: 'acme/chat', messages: [{ role: 'user', content: 'Hello!' }] };

export async function makeByokTenant(
  gateway: InProcessGateway,
  id: string,
  credits = 1_000_000_000,
): Promise<ByokTenant> {
  const call = async (method: string, path: string, key: string, body?: object) =>
    readReply(
      await fetch(gateway.url + path, {
        method,
        headers: { authorization: `Bearer ${key}` },
        ...(body ? { body: JSON.stringify(body) } : {}),
      }),
    );
  const admin = async (path: string, body: object) => {
    const created = await call('POST', `/admin/v1/tenants${path}`, gateway.keys.admin, body);
    if (created.status !== 201) throw new Error(created.text);
    return created;
  };
  await admin('', { id, name: id });
  if (credits > 0) await admin(`/${id}/credits`, { amount: credits });
  const manager = String((await admin(`/${id}/keys`, { name: 'm', management: true })).json.key);
  const key = String((await admin(`/${id}/keys`, { name: 'app' })).json.key);
  const manage = (method: string, path: string, body?: object) => call(method, path, manager, body);
  return {
    id,
    key,
    manage,
    setProviderKey: (provider, credential) => manage('PUT', `/api/v1/byok/${provider}`, credential),
    chat: (body = {}) => gateway.post({ ...hello, ...body }, { key }),
  };
}

export function dataOf(reply: Reply): Record<string, unknown> {
  return isObject(reply.json.data) ? reply.json.data : {};
}
