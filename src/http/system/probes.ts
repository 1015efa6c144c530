import {
  type AliveObject,
  type HelloObject,
  type NotReadyObject,
  type ReadyObject,
  systemDocs,
} from '../../contract/system.ts';
import { withTimeout } from '../../core/deadlines.ts';
import { GatewayError } from '../../core/errors.ts';
import { expositionType, type Metrics } from '../../telemetry/prometheus.ts';
import { json, setRetryAfter } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';

interface HealthDeps {
  readonly version: string;
  /** Rejects while the store is unreachable or read-only, or the journal can't be written. */
  ping(): Promise<void>;
  isDraining(): boolean;
  /** Returns a sentence if calls will be rejected unless something changes. */
  warning?(): string | undefined;
}

/** Shorter than the probe timeout in deploy/kubernetes, so that the probe receives the reason. */
const pingTimeoutMs = 4_000;

const open = routesFor({ access: 'public' });

export function healthRoutes(deps: HealthDeps): Route[] {
  const { version } = deps;
  const helloObject: HelloObject = {
    name: 'Tollgate',
    version,
    chat: '/v1/chat/completions',
    models: '/v1/models',
    dashboard: '/dashboard',
    docs: '/docs',
  };
  const hello = (exchange: Exchange) => json(exchange, helloObject);
  const alive: AliveObject = { status: 'ok', version };
  return [
    open.get('/', systemDocs.hello, hello),
    // Coding agents probe this path to see if the server is up.
    open.get('/api/hello', systemDocs.hello, hello),
    open.get('/healthz', systemDocs.alive, (exchange) => json(exchange, alive)),
    open.get('/readyz', systemDocs.ready, (exchange) => ready(exchange, deps)),
  ];
}

/** Names in quotes, IPv6 addresses, host names, and IPv4 addresses, each with its port. */
const names = /"[^"]*"|(?:[\da-f]*:){2,}[\da-f.:]*|\b[\w-]+(?:\.[\w-]+)+(?::\d+)?|\blocalhost\S*/gi;

/** Returns the message without names and causes, because anyone can send this request. */
function publicReason(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message
    .replace(/\bPostgres at \S+/g, 'Postgres')
    .replace(/\b(E[A-Z_]{4,}) \S+/g, '$1')
    .replace(names, '…');
}

/** Never calls a provider, because that would cost money. */
async function ready(exchange: Exchange, deps: HealthDeps): Promise<Response> {
  const notReady = (problem: string, retryAfterSeconds?: number) => {
    setRetryAfter(exchange.headers, retryAfterSeconds);
    const body: NotReadyObject = { status: 'unavailable', reason: problem };
    return json(exchange, body, 503);
  };
  if (deps.isDraining()) return notReady('The gateway is shutting down.');
  const isReachable = deps.ping().then(() => true);
  try {
    if (await withTimeout(isReachable, pingTimeoutMs)) {
      const warning = deps.warning?.();
      const body: ReadyObject = {
        status: 'ok',
        version: deps.version,
        ...(warning === undefined ? {} : { warning }),
      };
      return json(exchange, body);
    }
  } catch (error) {
    const wait = error instanceof GatewayError ? error.retryAfterSeconds : null;
    return notReady(`The store is unavailable: ${publicReason(error)}`, wait ?? undefined);
  }
  const seconds = pingTimeoutMs / 1000;
  return notReady(`The store is unavailable: no response within ${seconds} seconds.`);
}

/** Public, like the health probes: no label contains a tenant, a key, or a price. */
export function metricsRoutes(metrics: Pick<Metrics, 'write'>): Route[] {
  return [
    open.get(
      '/metrics',
      systemDocs.metrics,
      ({ headers }) =>
        new Response(metrics.write(), {
          headers: { ...headers, 'content-type': expositionType },
        }),
    ),
  ];
}
