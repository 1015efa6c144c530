import type { Authenticator } from '../auth/authenticate.ts';
import { type Actor, runAs } from '../core/actor.ts';
import { bodyBytesPerSecondMin, clientStallMs } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { asGatewayError, GatewayError, invalidRequest, shuttingDown } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { OutageLog } from '../telemetry/outage-log.ts';
import type { ResponseCounts } from '../telemetry/traffic.ts';
import { authorizeAdmin, authorizeKey, scopeError } from './access.ts';
import { AuditLog } from './audit.ts';
import { discardUnread } from './body/body.ts';
import { readExpectation } from './body/expect-continue.ts';
import { defaultIdleSeconds, type Handlers, listenOptions, preflight } from './listener.ts';
import { needsExactSpelling } from './paths.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import { Exchange, type KeyedRoute, type Route } from './routes.ts';
import type { StartupServer } from './startup-server.ts';

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
  /** True if only the admin listener serves the admin API and the metrics. */
  readonly hasAdminListener?: boolean;
  /** Counts a request that isn't a model call. Throws 429. */
  countRead?(caller: Caller): void;
  /** Writes rate-limit headers for a request that doesn't count toward the limit. */
  writeRateHeaders?(caller: Caller, headers: Record<string, string>): void;
  /** Maps an unexpected error, such as an outage; undefined means an internal error. */
  mapError?(error: unknown): GatewayError | undefined;
}

/** A socket that accepts requests, with the routes that it serves. */
interface Listener {
  router: Router;
  server: Bun.Server<undefined> | undefined;
}

/** Dispatches requests to routes, checks access, and turns errors into responses. */
export class HttpServer {
  readonly #deps: Omit<ServerDeps, 'routes'>;
  readonly #public: Listener;
  /** Unused unless the admin API has its own listener. */
  readonly #admin: Listener;
  readonly #outages: OutageLog;
  readonly #audit: AuditLog;
  readonly #idleSeconds: number;
  #draining = false;

  constructor({ routes, ...deps }: ServerDeps) {
    this.#deps = deps;
    this.#public = { router: this.#publicRouter(routes), server: undefined };
    this.#admin = { router: adminRouter(routes), server: undefined };
    this.#outages = new OutageLog(deps.log);
    this.#audit = new AuditLog(deps.log, deps.trustedProxies ?? []);
    this.#idleSeconds = deps.idleSeconds ?? defaultIdleSeconds;
  }

  /** Replaces the routes for new requests; running requests keep their handlers. */
  replaceRoutes(routes: readonly Route[], trustedProxies: readonly string[]): void {
    this.#audit.trust(trustedProxies);
    this.#public.router = this.#publicRouter(routes);
    this.#admin.router = adminRouter(routes);
  }

  #publicRouter(routes: readonly Route[]): Router {
    const { hasAdminListener } = this.#deps;
    return new Router(hasAdminListener ? routes.filter((route) => !isOfOperator(route)) : routes);
  }

  periodicTasks(): PeriodicTask[] {
    return this.#outages.periodicTasks();
  }

  get openRequests(): number {
    return this.#servers().reduce((sum, { pendingRequests }) => sum + pendingRequests, 0);
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Starts listening. Returns the port, which the system chooses if `port` is 0. */
  listen(host: string, port: number, reusePort = false, startupServer?: StartupServer): number {
    const handlers = this.#handlersOf(this.#public);
    this.#public.server =
      startupServer?.handOff(handlers) ??
      Bun.serve({ ...listenOptions(host, port, reusePort, this.#idleSeconds), ...handlers });
    return this.#public.server.port ?? port;
  }

  /** Starts the listener of the admin API and the metrics. Call this before `listen`. */
  listenForAdmin(host: string, port: number, reusePort = false): void {
    const options = listenOptions(host, port, reusePort, this.#idleSeconds);
    this.#admin.server = Bun.serve({ ...options, ...this.#handlersOf(this.#admin) });
  }

  #handlersOf(listener: Listener): Handlers {
    const serveExact = (request: Request) => this.#serve(request, listener, true);
    return {
      // Bun resolves dots in URLs, so `/v1/../admin` looks like `/admin` to `fetch`. But it matches
      // these routes against the path that the client sent, as a proxy does.
      routes: { '/admin/*': serveExact, '/metrics': serveExact },
      fetch: (request) => this.#serve(request, listener, false),
      error: (error) => this.#handleUnexpectedError(error),
    };
  }

  #servers(): Bun.Server<undefined>[] {
    return [this.#public.server, this.#admin.server].filter((server) => server !== undefined);
  }

  /**
   * Rejects new requests and waits up to the limit for running ones. Then aborts the remaining ones
   * with an error for their clients, and closes all connections.
   */
  async drain(seconds: number, abortRequests: () => void = () => {}): Promise<void> {
    this.#draining = true;
    // Otherwise clients would send their next requests on idle connections.
    for (const server of this.#servers()) server.closeIdleConnections();
    await this.#waitUntilIdle(seconds * 1000);
    if (this.openRequests > 0) {
      abortRequests();
      await this.#waitUntilIdle(abortGraceMs);
    }
    await Promise.all(this.#servers().map((server) => server.stop(true)));
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

  async #serve(request: Request, listener: Listener, isExact: boolean): Promise<Response> {
    const exchange = new Exchange(request);
    exchange.setIdleTimeout = (seconds) => listener.server?.timeout(request, seconds);
    exchange.reportLateError = this.#reportLateError;
    exchange.peer = () => listener.server?.requestIP(request)?.address;
    if (listener.server) readExpectation(request, listener.server);
    let response: Response;
    try {
      response = await this.#dispatch(exchange, listener.router, isExact);
      this.#extendIdleTimeout(exchange);
    } catch (error) {
      if (error instanceof GatewayError && error.symbol === 'invalid_api_key') {
        this.#audit.signInFailed(exchange, exchange.peer());
      }
      await discardUnread(exchange);
      response = this.#toErrorResponse(exchange, error);
      // Limit the wait, because the client may never read the error.
      exchange.setIdleTimeout(this.#idleSeconds);
    }
    if (exchange.change) this.#audit.changed(exchange, exchange.change, exchange.peer());
    this.#deps.responseCounts?.count(exchange.pattern, response.status);
    return response;
  }

  #dispatch(exchange: Exchange, router: Router, isExact: boolean): Response | Promise<Response> {
    const { request } = exchange;
    if (request.method === 'OPTIONS') return preflight(exchange);
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    const match = router.match(method, exchange.path);
    if (!match) throw unknownRoute(method, exchange, router);
    if (!isExact && needsExactSpelling(exchange.path)) throw inexactSpelling(exchange);
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
        return runAs(this.#actorOf(exchange), () => route.handle(exchange));
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
    // Model calls change nothing that is audited, and must not pay for it.
    if (route.access === 'routing') return route.handle(exchange, caller);
    return runAs(this.#actorOf(exchange), () => route.handle(exchange, caller));
  }

  #actorOf({ actor, request, requestId, peer }: Exchange): Actor {
    const address = this.#audit.addressOf(request, peer());
    return { name: actor, origin: 'http', address, requestId };
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

function unknownRoute(method: string, exchange: Exchange, router: Router): GatewayError {
  const { path, request } = exchange;
  const allowed = router.methodsOf(path);
  // Naming the method GET in the error would confuse a WebSocket client.
  const isWebSocket = request.headers.get('upgrade')?.toLowerCase() === 'websocket';
  const [firstAllowed] = allowed;
  if (firstAllowed) {
    const { errorShape } = router.match(firstAllowed, path)?.route ?? {};
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
  const hint = isWebSocket ? ' WebSockets are not supported.' : router.hint(method, path);
  return invalidRequest(`Unknown route: ${method} ${path}.${hint}`, undefined, 404);
}

/** Returns whether a route is for the operator. */
function isOfOperator({ access, path }: Route): boolean {
  return access === 'admin' || needsExactSpelling(path);
}

/** Besides the operator's routes, serves probes and the dashboard, which uses them. */
function adminRouter(routes: readonly Route[]): Router {
  return new Router(routes.filter(({ access }) => access === 'admin' || access === 'public'));
}

function inexactSpelling({ path }: Exchange): GatewayError {
  const message = `Send the path ${path} without dots, backslashes, or extra slashes.`;
  return invalidRequest(message, undefined, 404);
}
