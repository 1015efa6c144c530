import type { Authenticator } from '../auth/authenticate.ts';
import { bodyBytesPerSecondMin, clientStallMs } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import type { Chore } from '../core/chore.ts';
import { asGatewayError, type GatewayError, invalidRequest, shuttingDown } from '../core/errors.ts';
import type { Answers } from '../telemetry/answers.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { OutageLines } from '../telemetry/outage-lines.ts';
import { admitAdmin, admitKey, refusalOfScope } from './access.ts';
import { discardUnread } from './body/unread-body.ts';
import { Exchange } from './exchange.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import type { KeyedRoute, Route } from './routes.ts';
import type { Handlers, WaitingRoom } from './waiting-room.ts';

/**
 * How long a connection may be idle between requests, or go on sending a body that was refused.
 * Longer than load balancers keep theirs: they must be the first to close.
 */
const idleSecondsUsual = 120;

/** How often a draining server looks whether its last request has ended. */
const drainPollMs = 50;

/** How long an answer that is cut short may take to tell its client so. */
const lastWordsMs = 2_000;

interface ServerParts {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly log: Log;
  readonly answers?: Answers;
  readonly idleSeconds?: number;
  /** Writes the rate headers for a request that is not counted. */
  tellRate?(caller: Caller, headers: Record<string, string>): void;
  /** What a failure means that no step has explained; undefined when it is a fault of ours. */
  explain?(thrown: unknown): GatewayError | undefined;
}

/** Accepts requests, opens routes to those who may, and turns what is thrown into answers. */
export class HttpServer {
  readonly #parts: Omit<ServerParts, 'routes'>;
  #router: Router;
  readonly #outages: OutageLines;
  readonly #idleSeconds: number;
  #server: Bun.Server<undefined> | undefined;
  #draining = false;

  constructor({ routes, ...parts }: ServerParts) {
    this.#parts = parts;
    this.#router = new Router(routes);
    this.#outages = new OutageLines(parts.log);
    this.#idleSeconds = parts.idleSeconds ?? idleSecondsUsual;
  }

  /** Routes for all requests from now on; those under way keep the handlers they have. */
  replaceRoutes(routes: readonly Route[]): void {
    this.#router = new Router(routes);
  }

  chores(): Chore[] {
    return this.#outages.chores();
  }

  get openRequests(): number {
    return this.#server?.pendingRequests ?? 0;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Starts listening; returns the port in use, which matters when 0 was asked for. */
  listen(host: string, port: number, reusePort = false, room?: WaitingRoom): number {
    const handlers: Handlers = {
      fetch: (request) => this.#serve(request),
      error: (thrown) => this.#lastResort(thrown),
    };
    this.#server =
      room?.handOver(handlers) ??
      Bun.serve({ ...socketAt(host, port, reusePort, this.#idleSeconds), ...handlers });
    return this.#server.port ?? port;
  }

  /**
   * Refuses new work, waits for running requests up to the limit, has the others cut short so that
   * their clients hear why, then closes every connection.
   */
  async drain(seconds: number, cutShort: () => void = () => {}): Promise<void> {
    this.#draining = true;
    // Closed, because an idle connection would bring its client's next request here.
    this.#server?.closeIdleConnections();
    await this.#untilIdle(seconds * 1000);
    if (this.openRequests > 0) {
      cutShort();
      await this.#untilIdle(lastWordsMs);
    }
    await this.#server?.stop(true);
    this.#outages.tellRest();
  }

  async #untilIdle(withinMs: number): Promise<void> {
    for (let left = withinMs; this.openRequests > 0 && left > 0; ) {
      const before = performance.now();
      await Bun.sleep(drainPollMs);
      // One look counts no more than this, however long it took: after a machine stood still,
      // clients still get the time to hear the last words.
      left -= Math.min(performance.now() - before, 4 * drainPollMs);
    }
  }

  async #serve(request: Request): Promise<Response> {
    const exchange = new Exchange(request);
    exchange.allowSilence = (seconds) => this.#server?.timeout(request, seconds);
    exchange.tellLate = this.#tellLate;
    let response: Response;
    try {
      response = await this.#dispatch(exchange);
      this.#allowSlowReader(exchange);
    } catch (thrown) {
      response = this.#refuse(exchange, thrown);
      await discardUnread(exchange);
      // The rest of the body may never come.
      exchange.allowSilence(this.#idleSeconds);
    }
    this.#parts.answers?.count(exchange.pattern, response.status);
    return response;
  }

  #dispatch(exchange: Exchange): Response | Promise<Response> {
    const { request } = exchange;
    if (request.method === 'OPTIONS') return preflight(exchange);
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    const match = this.#router.match(method, exchange.path);
    if (!match) throw this.#unknownRoute(method, exchange);
    exchange.open(match);
    const { route } = match;
    if (route.access === 'public') return route.handle(exchange);
    if (this.#draining) {
      exchange.headers.connection = 'close';
      throw shuttingDown();
    }
    if (route.access === 'admin') {
      return admitAdmin(request, this.#parts.authenticator).then(() => {
        exchange.allowSilence(0);
        return route.handle(exchange);
      });
    }
    const caller = admitKey(route, request, this.#parts.authenticator);
    if (caller instanceof Promise) return caller.then((it) => this.#enter(route, exchange, it));
    return this.#enter(route, exchange, caller);
  }

  #enter(route: KeyedRoute, exchange: Exchange, caller: Caller): Response | Promise<Response> {
    const refusal = refusalOfScope(route, caller);
    // The handlers of POST routes tell the rate themselves, most of them after counting.
    const tellsLater = route.method === 'POST' && !refusal;
    if (route.access === 'routing' && !tellsLater) this.#parts.tellRate?.(caller, exchange.headers);
    if (refusal) throw refusal;
    // Models think for minutes before they say a word; our own deadlines cut them.
    exchange.allowSilence(0);
    return route.handle(exchange, caller);
  }

  /**
   * Once answered, a connection is idle again. A slow reader gets more time on top, because bytes
   * on their way out count as silence. The runtime cannot time more than `clientStallMs`.
   */
  #allowSlowReader({ answerLength, allowSilence }: Exchange): void {
    if (answerLength === undefined) return;
    const seconds = this.#idleSeconds + Math.ceil(answerLength / bodyBytesPerSecondMin);
    allowSilence(seconds * 1000 <= clientStallMs ? seconds : 0);
  }

  #unknownRoute(method: string, exchange: Exchange): GatewayError {
    const { path, request } = exchange;
    const allowed = this.#router.methodsOf(path);
    // A WebSocket's client sees a failed handshake: to name its method would mislead it.
    const isWebSocket = request.headers.get('upgrade')?.toLowerCase() === 'websocket';
    const [usual] = allowed;
    if (usual) {
      const { errorShape } = this.#router.match(usual, path)?.route ?? {};
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

  #refuse(exchange: Exchange, thrown: unknown): Response {
    const error = this.#explained(thrown);
    this.#tellOf(exchange, error);
    return errorReply(exchange, error);
  }

  #explained(thrown: unknown): GatewayError {
    return this.#parts.explain?.(thrown) ?? asGatewayError(thrown);
  }

  readonly #tellLate = (exchange: Exchange, thrown: unknown): void => {
    this.#tellOf(exchange, this.#explained(thrown));
  };

  #tellOf({ requestId, path }: Exchange, error: GatewayError): void {
    const { symbol, cause } = error;
    const request = { request_id: requestId, path, symbol };
    // Of a fault only the cause tells anything; of an outage our own sentence tells more.
    if (symbol === 'internal_error') {
      this.#parts.log.error('request_failed', { ...request, reason: reason(cause ?? error) });
    } else if (symbol === 'service_unavailable') {
      const fields = { ...request, reason: reason(error) };
      // Every rolling restart refuses some clients, who try again elsewhere: no alarm for that.
      if (this.#draining && cause === undefined) this.#parts.log.info('request_failed', fields);
      else this.#outages.failed(error.message, fields);
    }
  }

  #lastResort(thrown: unknown): Response {
    this.#parts.log.error('unexpected_failure', { reason: reason(thrown) });
    const message = 'Tollgate failed to handle this request.';
    const body = { error: { message, type: 'internal_error', code: 500, param: null } };
    return Response.json(body, { status: 500 });
  }
}

/** The options of a listening socket, whoever answers at it. */
export function socketAt(
  hostname: string,
  port: number,
  reusePort: boolean,
  idleTimeout = idleSecondsUsual,
) {
  // Every route has its own bound and names it; the runtime's would be a 413 without a message.
  return { hostname, port, reusePort, idleTimeout, maxRequestBodySize: Number.MAX_SAFE_INTEGER };
}

/**
 * Browsers ask first; SDKs send many headers of their own, so whatever they ask for is allowed.
 * Some also ask whether a page from the internet may call an address of this machine or network.
 */
export function preflight({ request, headers }: Exchange): Response {
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
