import type { Authenticator } from '../auth/authenticate.ts';
import { bodyBytesPerSecondMin, clientStallMs } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import {
  asGatewayError,
  type GatewayError,
  invalidRequest,
  shuttingDown,
  unavailable,
} from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { type Log, OutageLog, reason } from '../telemetry/log.ts';
import type { ResponseCounts } from '../telemetry/traffic.ts';
import { authorizeAdmin, authorizeKey, scopeError } from './access.ts';
import { discardUnread } from './body/body.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import { Exchange, type KeyedRoute, type Route } from './routes.ts';
import { healthRoutes } from './system/probes.ts';

/**
 * How long a connection may be idle between requests, or go on sending a body that was refused.
 * Longer than load balancers keep theirs: they must be the first to close.
 */
const defaultIdleSeconds = 120;

/** How often a draining server looks whether its last request has ended. */
const drainPollMs = 50;

/** How long an answer that is cut short may take to tell its client so. */
const abortGraceMs = 2_000;

interface ServerDeps {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly log: Log;
  readonly answers?: ResponseCounts;
  readonly idleSeconds?: number;
  /** Writes the rate headers for a request that is not counted. */
  writeRateHeaders?(caller: Caller, headers: Record<string, string>): void;
  /** What a failure means that no step has explained; undefined when it is a fault of ours. */
  explain?(error: unknown): GatewayError | undefined;
}

/** Accepts requests, opens routes to those who may, and turns what is thrown into answers. */
export class HttpServer {
  readonly #deps: Omit<ServerDeps, 'routes'>;
  #router: Router;
  readonly #outages: OutageLog;
  readonly #idleSeconds: number;
  #server: Bun.Server<undefined> | undefined;
  #draining = false;

  constructor({ routes, ...deps }: ServerDeps) {
    this.#deps = deps;
    this.#router = new Router(routes);
    this.#outages = new OutageLog(deps.log);
    this.#idleSeconds = deps.idleSeconds ?? defaultIdleSeconds;
  }

  /** Routes for all requests from now on; those under way keep the handlers they have. */
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

  /** Starts listening; returns the port in use, which matters when 0 was asked for. */
  listen(host: string, port: number, reusePort = false, startupServer?: StartupServer): number {
    const handlers: Handlers = {
      fetch: (request) => this.#serve(request),
      error: (error) => this.#handleUnexpectedError(error),
    };
    this.#server =
      startupServer?.handOff(handlers) ??
      Bun.serve({ ...listenOptions(host, port, reusePort, this.#idleSeconds), ...handlers });
    return this.#server.port ?? port;
  }

  /**
   * Refuses new work, waits for running requests up to the limit, has the others cut short so that
   * their clients hear why, then closes every connection.
   */
  async drain(seconds: number, abortRequests: () => void = () => {}): Promise<void> {
    this.#draining = true;
    // Closed, because an idle connection would bring its client's next request here.
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
      // One look counts no more than this, however long it took: after a machine stood still,
      // clients still get the time to hear the last words.
      remainingMs -= Math.min(performance.now() - startedAt, 4 * drainPollMs);
    }
  }

  async #serve(request: Request): Promise<Response> {
    const exchange = new Exchange(request);
    exchange.setIdleTimeout = (seconds) => this.#server?.timeout(request, seconds);
    exchange.reportLateError = this.#reportLateError;
    let response: Response;
    try {
      response = await this.#dispatch(exchange);
      this.#extendIdleTimeout(exchange);
    } catch (error) {
      response = this.#toErrorResponse(exchange, error);
      await discardUnread(exchange);
      // The rest of the body may never come.
      exchange.setIdleTimeout(this.#idleSeconds);
    }
    this.#deps.answers?.count(exchange.pattern, response.status);
    return response;
  }

  #dispatch(exchange: Exchange): Response | Promise<Response> {
    const { request } = exchange;
    if (request.method === 'OPTIONS') return preflight(exchange);
    const method = request.method === 'HEAD' ? 'GET' : request.method;
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
        exchange.setIdleTimeout(0);
        return route.handle(exchange);
      });
    }
    const caller = authorizeKey(route, request, this.#deps.authenticator);
    if (caller instanceof Promise)
      return caller.then((it) => this.#callHandler(route, exchange, it));
    return this.#callHandler(route, exchange, caller);
  }

  #callHandler(
    route: KeyedRoute,
    exchange: Exchange,
    caller: Caller,
  ): Response | Promise<Response> {
    const refusal = scopeError(route, caller);
    // The handlers of POST routes tell the rate themselves, most of them after counting.
    const writesRateLater = route.method === 'POST' && !refusal;
    if (route.access === 'routing' && !writesRateLater)
      this.#deps.writeRateHeaders?.(caller, exchange.headers);
    if (refusal) throw refusal;
    // Models think for minutes before they say a word; our own deadlines cut them.
    exchange.setIdleTimeout(0);
    return route.handle(exchange, caller);
  }

  /**
   * Once answered, a connection is idle again. A slow reader gets more time on top, because bytes
   * on their way out count as silence. The runtime cannot time more than `clientStallMs`.
   */
  #extendIdleTimeout({
    responseLength: answerLength,
    setIdleTimeout: allowSilence,
  }: Exchange): void {
    if (answerLength === undefined) return;
    const seconds = this.#idleSeconds + Math.ceil(answerLength / bodyBytesPerSecondMin);
    allowSilence(seconds * 1000 <= clientStallMs ? seconds : 0);
  }

  #unknownRoute(method: string, exchange: Exchange): GatewayError {
    const { path, request } = exchange;
    const allowed = this.#router.methodsOf(path);
    // A WebSocket's client sees a failed handshake: to name its method would mislead it.
    const isWebSocket = request.headers.get('upgrade')?.toLowerCase() === 'websocket';
    const [firstAllowed] = allowed;
    if (firstAllowed) {
      const { errorShape } = this.#router.match(firstAllowed, path)?.route ?? {};
      exchange.errorShape = errorShape ?? exchange.errorShape;
      exchange.headers.allow = allowed.join(', ');
      // After a 426 Codex sends a POST at once; after any other status, five more handshakes.
      if (isWebSocket) {
        exchange.headers.upgrade = 'HTTP/1.1';
        exchange.headers.connection = 'Upgrade';
      }
      return invalidRequest(
        `${isWebSocket ? 'A WebSocket' : method} is not allowed here; use ${allowed.join(' or ')}.`,
        undefined,
        isWebSocket ? 426 : 405,
      );
    }
    const hint = isWebSocket ? ' WebSockets are not served.' : this.#router.hint(method, path);
    return invalidRequest(`There is no ${method} ${path}.${hint}`, undefined, 404);
  }

  #toErrorResponse(exchange: Exchange, cause: unknown): Response {
    const error = this.#toGatewayError(cause);
    this.#reportError(exchange, error);
    return errorReply(exchange, error);
  }

  #toGatewayError(error: unknown): GatewayError {
    return this.#deps.explain?.(error) ?? asGatewayError(error);
  }

  readonly #reportLateError = (exchange: Exchange, error: unknown): void => {
    this.#reportError(exchange, this.#toGatewayError(error));
  };

  #reportError({ requestId, path }: Exchange, error: GatewayError): void {
    const { symbol, cause } = error;
    const request = { request_id: requestId, path, symbol };
    // Of a fault only the cause tells anything; of an outage our own sentence tells more.
    if (symbol === 'internal_error') {
      this.#deps.log.error('request_failed', { ...request, reason: reason(cause ?? error) });
    } else if (symbol === 'service_unavailable') {
      const fields = { ...request, reason: reason(error) };
      // Every rolling restart refuses some clients, who try again elsewhere: no alarm for that.
      if (this.#draining && cause === undefined) this.#deps.log.info('request_failed', fields);
      else this.#outages.failed(error.message, fields);
    }
  }

  #handleUnexpectedError(error: unknown): Response {
    this.#deps.log.error('unexpected_failure', { reason: reason(error) });
    const message = 'Tollgate failed to handle this request.';
    const body = { error: { message, type: 'internal_error', code: 500, param: null } };
    return Response.json(body, { status: 500 });
  }
}

/** The options of a listening socket, whoever answers at it. */
function listenOptions(
  hostname: string,
  port: number,
  reusePort: boolean,
  idleTimeout = defaultIdleSeconds,
) {
  // Every route has its own bound and names it; the runtime's would be a 413 without a message.
  return { hostname, port, reusePort, idleTimeout, maxRequestBodySize: Number.MAX_SAFE_INTEGER };
}

/**
 * Browsers ask first; SDKs send many headers of their own, so whatever they ask for is allowed.
 * Some also ask whether a page from the internet may call an address of this machine or network.
 */
function preflight({ request, headers }: Exchange): Response {
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

/** What a server does with requests, apart from where it listens. */
export interface Handlers {
  readonly fetch: (request: Request) => Promise<Response>;
  readonly error: (error: Error) => Response;
}

/**
 * Listens while there is no gateway yet: tells probes that the process lives and why it is not
 * ready, and other clients to come again. The gateway takes over the socket with its connections.
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

  /** Opens with the first reason; returns the port in use. */
  listen(host: string, port: number, reusePort: boolean, problem: string): number {
    this.#problem = problem;
    this.#server ??= Bun.serve({
      ...listenOptions(host, port, reusePort),
      fetch: (request) => this.#serve(request),
    });
    return this.#server.port ?? port;
  }

  /** Undefined when the room was never opened. */
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
    // The routes are not known yet, but clients of this one read errors in one shape only.
    if (path.startsWith('/v1/images/')) exchange.errorShape = 'images';
    return errorReply(exchange, unavailable(startingMessage));
  }
}

const startingMessage = 'This Tollgate waits for its database; send the request again shortly.';
