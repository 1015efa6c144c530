import type { Authenticator } from '../auth/authenticate.ts';
import { bodyBytesPerSecondMin, clientStallMs } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import {
  asGatewayError,
  GatewayError,
  invalidRequest,
  shuttingDown,
  unavailable,
} from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { OutageLog } from '../telemetry/outage-log.ts';
import type { ResponseCounts } from '../telemetry/traffic.ts';
import { authorizeAdmin, authorizeKey, scopeError } from './access.ts';
import { AuditLog } from './audit.ts';
import { discardUnread } from './body/body.ts';
import { needsExactSpelling } from './paths.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import { Exchange, type KeyedRoute, type Route } from './routes.ts';
import { healthRoutes } from './system/probes.ts';

/**
 * How long a connection may be idle between requests, or keep sending a rejected body. It exceeds
 * the idle timeout of load balancers, because they must close idle connections first.
 */
const defaultIdleSeconds = 120;

/** How often a draining server checks for running requests. */
const drainPollMs = 50;

/** How long an aborted answer may take to send its last event. */
const abortGraceMs = 2_000;

interface ServerDeps {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly log: Log;
  readonly responseCounts?: ResponseCounts;
  readonly idleSeconds?: number;
  /** Proxies whose `X-Forwarded-For` names the client: addresses and ranges. */
  readonly trustedProxies?: readonly string[];
  /** Counts a request that isn't a model call. Throws 429. */
  countRead?(caller: Caller): void;
  /** Writes rate-limit headers for a request that doesn't count toward the limit. */
  writeRateHeaders?(caller: Caller, headers: Record<string, string>): void;
  /** Maps an unexpected error, such as an outage; undefined means an internal error. */
  mapError?(error: unknown): GatewayError | undefined;
}

/** Dispatches requests to routes, checks access, and turns errors into responses. */
export class HttpServer {
  readonly #deps: Omit<ServerDeps, 'routes'>;
  #router: Router;
  readonly #outages: OutageLog;
  readonly #audit: AuditLog;
  readonly #idleSeconds: number;
  #server: Bun.Server<undefined> | undefined;
  #draining = false;

  constructor({ routes, ...deps }: ServerDeps) {
    this.#deps = deps;
    this.#router = new Router(routes);
    this.#outages = new OutageLog(deps.log);
    this.#audit = new AuditLog(deps.log, deps.trustedProxies ?? []);
    this.#idleSeconds = deps.idleSeconds ?? defaultIdleSeconds;
  }

  /** Replaces the routes for new requests; running requests keep their handlers. */
  replaceRoutes(routes: readonly Route[]): void {
    this.#router = new Router(routes);
  }

  periodicTasks(): PeriodicTask[] {
    return this.#outages.periodicTasks();
  }

  get openRequests(): number {
    return this.#server?.pendingRequests ?? 0;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Starts listening. Returns the port, which the system chooses if `port` is 0. */
  listen(host: string, port: number, reusePort = false, startupServer?: StartupServer): number {
    const serveExact = (request: Request) => this.#serve(request, true);
    const handlers: Handlers = {
      // Bun resolves dots in URLs, so `/v1/../admin` looks like `/admin` to `fetch`. But it matches
      // these routes against the path that the client sent, as a proxy does.
      routes: { '/admin/*': serveExact, '/metrics': serveExact },
      fetch: (request) => this.#serve(request, false),
      error: (error) => this.#handleUnexpectedError(error),
    };
    this.#server =
      startupServer?.handOff(handlers) ??
      Bun.serve({ ...listenOptions(host, port, reusePort, this.#idleSeconds), ...handlers });
    return this.#server.port ?? port;
  }

  /**
   * Rejects new requests and waits up to the limit for running ones. Then aborts the remaining ones
   * with an error for their clients, and closes all connections.
   */
  async drain(seconds: number, abortRequests: () => void = () => {}): Promise<void> {
    this.#draining = true;
    // Otherwise clients would send their next requests on idle connections.
    this.#server?.closeIdleConnections();
    await this.#waitUntilIdle(seconds * 1000);
    if (this.openRequests > 0) {
      abortRequests();
      await this.#waitUntilIdle(abortGraceMs);
    }
    await this.#server?.stop(true);
    this.#outages.flush();
  }

  async #waitUntilIdle(withinMs: number): Promise<void> {
    for (let remainingMs = withinMs; this.openRequests > 0 && remainingMs > 0; ) {
      const startedAt = performance.now();
      await Bun.sleep(drainPollMs);
      // Count at most 4 intervals per poll. Otherwise, if the machine is suspended, the time would
      // be over before clients get their last events.
      remainingMs -= Math.min(performance.now() - startedAt, 4 * drainPollMs);
    }
  }

  async #serve(request: Request, isExact: boolean): Promise<Response> {
    const exchange = new Exchange(request);
    exchange.setIdleTimeout = (seconds) => this.#server?.timeout(request, seconds);
    exchange.reportLateError = this.#reportLateError;
    let response: Response;
    try {
      response = await this.#dispatch(exchange, isExact);
      this.#extendIdleTimeout(exchange);
    } catch (error) {
      if (error instanceof GatewayError && error.symbol === 'invalid_api_key') {
        this.#audit.signInFailed(exchange, this.#peerOf(request));
      }
      await discardUnread(exchange);
      response = this.#toErrorResponse(exchange, error);
      // Limit the wait, because the client may never read the error.
      exchange.setIdleTimeout(this.#idleSeconds);
    }
    if (exchange.change) this.#audit.changed(exchange, exchange.change, this.#peerOf(request));
    this.#deps.responseCounts?.count(exchange.pattern, response.status);
    return response;
  }

  #peerOf(request: Request): string | undefined {
    return this.#server?.requestIP(request)?.address;
  }

  #dispatch(exchange: Exchange, isExact: boolean): Response | Promise<Response> {
    const { request } = exchange;
    if (request.method === 'OPTIONS') return preflight(exchange);
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    if (!isExact && needsExactSpelling(exchange.path)) throw inexactSpelling(exchange);
    const match = this.#router.match(method, exchange.path);
    if (!match) throw this.#unknownRoute(method, exchange);
    exchange.setMatch(match);
    const { route } = match;
    if (route.access === 'public') return route.handle(exchange);
    if (this.#draining) {
      exchange.headers.connection = 'close';
      throw shuttingDown();
    }
    if (route.access === 'admin') {
      return authorizeAdmin(request, this.#deps.authenticator).then(() => {
        exchange.actor = 'admin';
        exchange.setIdleTimeout(0);
        return route.handle(exchange);
      });
    }
    const caller = authorizeKey(route, request, this.#deps.authenticator);
    if (caller instanceof Promise)
      return caller.then((resolved) => this.#callHandler(route, exchange, resolved));
    return this.#callHandler(route, exchange, caller);
  }

  #callHandler(
    route: KeyedRoute,
    exchange: Exchange,
    caller: Caller,
  ): Response | Promise<Response> {
    const rejection = scopeError(route, caller);
    // Handlers of model calls and new jobs count them and write the rate-limit headers.
    const isCountedLater = route.access === 'routing' && route.method === 'POST' && !rejection;
    if (route.access === 'routing' && !isCountedLater)
      this.#deps.writeRateHeaders?.(caller, exchange.headers);
    if (!isCountedLater) this.#deps.countRead?.(caller);
    if (rejection) throw rejection;
    // A model may send nothing for minutes. Upstream calls have their own deadlines.
    exchange.setIdleTimeout(0);
    exchange.actor = caller.keyId;
    return route.handle(exchange, caller);
  }

  /**
   * Restores the idle timeout after a response. Large responses get more time, because Bun counts
   * the time to send them as idle. There is no limit if the time exceeds Bun's maximum,
   * `clientStallMs`.
   */
  #extendIdleTimeout({ responseLength, setIdleTimeout }: Exchange): void {
    if (responseLength === undefined) return;
    const seconds = this.#idleSeconds + Math.ceil(responseLength / bodyBytesPerSecondMin);
    setIdleTimeout(seconds * 1000 <= clientStallMs ? seconds : 0);
  }

  #unknownRoute(method: string, exchange: Exchange): GatewayError {
    const { path, request } = exchange;
    const allowed = this.#router.methodsOf(path);
    // Naming the method GET in the error would confuse a WebSocket client.
    const isWebSocket = request.headers.get('upgrade')?.toLowerCase() === 'websocket';
    const [firstAllowed] = allowed;
    if (firstAllowed) {
      const { errorShape } = this.#router.match(firstAllowed, path)?.route ?? {};
      exchange.errorShape = errorShape ?? exchange.errorShape;
      exchange.headers.allow = allowed.join(', ');
      // Codex falls back to POST after a 426. After other statuses it retries 5 times.
      if (isWebSocket) {
        exchange.headers.upgrade = 'HTTP/1.1';
        exchange.headers.connection = 'Upgrade';
      }
      return invalidRequest(
        `${isWebSocket ? 'WebSocket' : method} isn't supported here. Use ${allowed.join(' or ')}.`,
        undefined,
        isWebSocket ? 426 : 405,
      );
    }
    const hint = isWebSocket ? ' WebSockets are not supported.' : this.#router.hint(method, path);
    return invalidRequest(`Unknown route: ${method} ${path}.${hint}`, undefined, 404);
  }

  #toErrorResponse(exchange: Exchange, cause: unknown): Response {
    const error = this.#toGatewayError(cause);
    this.#reportError(exchange, error);
    return errorReply(exchange, error);
  }

  #toGatewayError(error: unknown): GatewayError {
    return this.#deps.mapError?.(error) ?? asGatewayError(error);
  }

  readonly #reportLateError = (exchange: Exchange, error: unknown): void => {
    this.#reportError(exchange, this.#toGatewayError(error));
  };

  #reportError({ requestId, path }: Exchange, error: GatewayError): void {
    const { symbol, cause } = error;
    const request = { request_id: requestId, path, symbol };
    // The reason is in the cause of an internal error, but in the message of an outage.
    if (symbol === 'internal_error') {
      this.#deps.log.error('request_failed', { ...request, reason: reason(cause ?? error) });
    } else if (symbol === 'service_unavailable') {
      const fields = { ...request, reason: reason(error) };
      // During a rolling restart, rejected clients retry elsewhere. That is not an outage.
      if (this.#draining && cause === undefined) this.#deps.log.info('request_failed', fields);
      else this.#outages.failed(error.message, fields);
    }
  }

  #handleUnexpectedError(error: unknown): Response {
    this.#deps.log.error('unexpected_failure', { reason: reason(error) });
    const message = 'An internal error occurred.';
    const name = 'internal_error';
    const body = { error: { message, type: name, code: name, param: null } };
    return Response.json(body, { status: 500, headers: { 'x-content-type-options': 'nosniff' } });
  }
}

function inexactSpelling({ path }: Exchange): GatewayError {
  const message = `Send the path ${path} without dots, backslashes, or extra slashes.`;
  return invalidRequest(message, undefined, 404);
}

function listenOptions(
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
function preflight({ request, headers, allowsOrigins }: Exchange): Response {
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

/**
 * Listens until the gateway is built: answers probes with the reason why it isn't ready, and other
 * requests with a 503. Then the gateway takes over the socket and its connections.
 */
export class StartupServer {
  #server: Bun.Server<undefined> | undefined;
  #problem = '';
  readonly #probes: Router;

  constructor(version: string) {
    const ping = async () => {
      throw new Error(this.#problem);
    };
    const routes = healthRoutes({ version, ping, isDraining: () => false });
    const probes = ['/healthz', '/readyz'];
    this.#probes = new Router(routes.filter(({ path }) => probes.includes(path)));
  }

  /** Starts listening, or updates the reason. Returns the port. */
  listen(host: string, port: number, reusePort: boolean, problem: string): number {
    this.#problem = problem;
    this.#server ??= Bun.serve({
      ...listenOptions(host, port, reusePort),
      fetch: (request) => this.#serve(request),
    });
    return this.#server.port ?? port;
  }

  /** Installs the handlers and returns the server, or undefined if it never listened. */
  handOff(handlers: Handlers): Bun.Server<undefined> | undefined {
    this.#server?.reload(handlers);
    return this.#server;
  }

  async close(): Promise<void> {
    await this.#server?.stop(true);
  }

  #serve(request: Request): Response | Promise<Response> {
    const exchange = new Exchange(request);
    if (request.method === 'OPTIONS') return preflight(exchange);
    const { path } = exchange;
    const probe = this.#probes.match(request.method === 'HEAD' ? 'GET' : request.method, path);
    if (probe?.route.access === 'public') return probe.route.handle(exchange);
    // There are no routes yet, but clients of these APIs expect these error shapes.
    if (path.startsWith('/v1/images/')) exchange.errorShape = 'images';
    if (path === '/v1/chat/completions') exchange.errorShape = 'chat';
    return errorReply(exchange, unavailable(startingMessage));
  }
}

const startingMessage = 'The gateway is waiting for its database. Try again shortly.';
