import { within } from '../../core/within.ts';
import { reason } from '../../telemetry/log.ts';
import type { Exchange } from '../exchange.ts';
import { serviceDocs } from '../openapi/gateway-itself.ts';
import { json, tellRetryAfter } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

interface HealthParts {
  readonly version: string;
  /** Rejects while the store does not answer or takes no changes, or the journal takes no line. */
  ping(): Promise<void>;
  isDraining(): boolean;
}

/** Probes give up soon after this, and would take silence for a process that is gone. */
const patienceMs = 4_000;

const open = routesFor({ access: 'public' });

export function healthRoutes(parts: HealthParts): Route[] {
  const { version } = parts;
  const hello = (exchange: Exchange) =>
    json(exchange, {
      name: 'Tollgate',
      version,
      chat: '/v1/chat/completions',
      models: '/v1/models',
      dashboard: '/dashboard',
      docs: '/docs',
    });
  return [
    open.get('/', serviceDocs.hello, hello),
    // Coding agents probe this path to see whether anybody is there.
    open.get('/api/hello', serviceDocs.hello, hello),
    open.get('/healthz', serviceDocs.alive, (exchange) =>
      json(exchange, { status: 'ok', version }),
    ),
    open.get('/readyz', serviceDocs.ready, (exchange) => ready(exchange, parts)),
  ];
}

/** Never calls a provider: a probe must not cost anything. */
async function ready(exchange: Exchange, parts: HealthParts): Promise<Response> {
  const refuse = (why: string) => {
    tellRetryAfter(exchange.headers);
    return json(exchange, { status: 'unavailable', reason: why }, 503);
  };
  if (parts.isDraining()) return refuse('This Tollgate is shutting down.');
  const isThere = parts.ping().then(() => true);
  try {
    if (await within(isThere, patienceMs)) {
      return json(exchange, { status: 'ok', version: parts.version });
    }
  } catch (thrown) {
    return refuse(`The store cannot be used: ${reason(thrown)}`);
  }
  const seconds = patienceMs / 1000;
  return refuse(`The store cannot be used: it has not answered within ${seconds} seconds.`);
}
