import { startFakeUpstream } from './fake-upstream.ts';

/** How a provider rejects a key, or fails. */
interface Rejection {
  readonly status: number;
  readonly message: string;
  readonly retryAfter?: string;
}

export interface KeyedProvider {
  /** The base URL. */
  readonly url: string;
  /** The names of the keys in the order in which they were used, since the last `reset`. */
  readonly used: string[];
  /** The keys that are rejected, by name. */
  readonly rejections: Map<string, Rejection>;
  reset(): void;
  stop(): void;
}

/** The text of a key. The provider recognizes its name. */
export const keyText = (name: string) => `sk-${name}-0123456789`;

/** An entry of `api_keys`. */
export const keyNamed = (name: string, more: object = {}) => ({
  ...{ name, key: keyText(name) },
  ...more,
});

/** Starts a provider that can answer each key differently. It accepts all other keys. */
export function startKeyedProvider(): KeyedProvider {
  const fake = startFakeUpstream();
  const used: string[] = [];
  const rejections = new Map<string, Rejection>();
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { headers: sent } = request;
      const credential = sent.get('authorization') ?? sent.get('x-api-key') ?? '';
      const name = /\bsk-(.*)-0123456789$/.exec(credential)?.[1];
      used.push(name ?? '');
      const body = await request.text();
      const rejection = rejections.get(name ?? '');
      if (rejection) {
        const { status, message, retryAfter } = rejection;
        const headers = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
        return Response.json({ error: { message } }, { status, headers });
      }
      const { pathname } = new URL(request.url);
      if (request.method === 'GET') return Response.json({ data: [{ id: 'chat' }] });
      return fetch(fake.url + pathname, { method: 'POST', headers: sent, body });
    },
  });
  return {
    url: `${server.url.origin}/v1`,
    used,
    rejections,
    reset() {
      used.length = 0;
      rejections.clear();
    },
    stop() {
      void server.stop(true);
      fake.stop();
    },
  };
}
