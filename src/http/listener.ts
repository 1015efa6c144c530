import type { Exchange } from './routes.ts';

/**
 * How long a connection may be idle between requests, or keep sending a rejected body. It exceeds
 * the idle timeout of load balancers, because they must close idle connections first.
 */
export const defaultIdleSeconds = 120;

export function listenOptions(
  hostname: string,
  port: number,
  reusePort: boolean,
  idleTimeout = defaultIdleSeconds,
) {
  // Each route has its own limit with an error message; Bun would send a 413 without a body.
  return { hostname, port, reusePort, idleTimeout, maxRequestBodySize: Number.MAX_SAFE_INTEGER };
}

/**
 * Answers a CORS preflight. All requested headers are allowed, because SDKs send many of their
 * own. Private network access is allowed for gateways on a local address.
 */
export function preflight({ request, headers, allowsOrigins }: Exchange): Response {
  if (!allowsOrigins) return new Response(null, { status: 204, headers });
  return new Response(null, {
    status: 204,
    headers: {
      ...headers,
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
      'access-control-allow-headers': request.headers.get('access-control-request-headers') ?? '*',
      'access-control-allow-private-network': 'true',
      'access-control-max-age': '86400',
    },
  });
}

export interface Handlers {
  readonly routes: Readonly<Record<string, Handlers['fetch']>>;
  readonly fetch: (request: Request) => Promise<Response>;
  readonly error: (error: Error) => Response;
}
