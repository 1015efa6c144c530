import { systemDocs } from '../../contract/system.ts';
import { withTimeout } from '../../core/deadlines.ts';
import { reason } from '../../telemetry/log.ts';
import { expositionType, type Metrics } from '../../telemetry/prometheus.ts';
import { json, setRetryAfter } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';

interface HealthDeps {
  readonly version: string;
  /** Rejects while the store does not answer or takes no changes, or the journal takes no line. */
  ping(): Promise<void>;
  isDraining(): boolean;
}

/** Probes give up soon after this, and would take silence for a process that is gone. */
const pingTimeoutMs = 4_000;

const open = routesFor({ access: 'public' });

export function healthRoutes(deps: HealthDeps): Route[] {
  const { version } = deps;
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
    open.get('/', systemDocs.hello, hello),
    // Coding agents probe this path to see whether anybody is there.
    open.get('/api/hello', systemDocs.hello, hello),
    open.get('/healthz', systemDocs.alive, (exchange) => json(exchange, { status: 'ok', version })),
    open.get('/readyz', systemDocs.ready, (exchange) => ready(exchange, deps)),
  ];
}

/** Never calls a provider: a probe must not cost anything. */
async function ready(exchange: Exchange, deps: HealthDeps): Promise<Response> {
  const notReady = (problem: string) => {
    setRetryAfter(exchange.headers);
    return json(exchange, { status: 'unavailable', reason: problem }, 503);
  };
  if (deps.isDraining()) return notReady('This Tollgate is shutting down.');
  const isReachable = deps.ping().then(() => true);
  try {
    if (await withTimeout(isReachable, pingTimeoutMs)) {
      return json(exchange, { status: 'ok', version: deps.version });
    }
  } catch (error) {
    return notReady(`The store cannot be used: ${reason(error)}`);
  }
  const seconds = pingTimeoutMs / 1000;
  return notReady(`The store cannot be used: it has not answered within ${seconds} seconds.`);
}

const publicRoute = routesFor({ access: 'public' });

/** For Prometheus. Open like the health probes: no label names a tenant, a key or a price. */
export function metricsRoutes(metrics: Pick<Metrics, 'write'>): Route[] {
  return [
    publicRoute.get(
      '/metrics',
      systemDocs.metrics,
      ({ headers }) =>
        new Response(metrics.write(), {
          headers: { ...headers, 'content-type': expositionType },
        }),
    ),
  ];
}
