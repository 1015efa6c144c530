import type { Authenticator } from '../auth/authenticate.ts';
import { asGatewayError, GatewayError, invalidRequest } from '../core/errors.ts';
import type { Answers } from '../telemetry/answers.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { admitAdmin, admitKey } from './admission.ts';
import { Exchange } from './exchange.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import type { Route } from './routes.ts';

/** Uploads for jobs are the largest bodies; every route has its own, smaller bound. */
const bodyBytesCeiling = 512 * 1024 * 1024;

/** How often a draining server looks whether its last request has ended. */
const drainPollMs = 50;

export interface ServerParts {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly log: Log;
  readonly answers?: Answers;
}

/** Accepts requests, opens routes to those who may, and turns what is thrown into answers. */
export class HttpServer {
  #router: Router;
  readonly #authenticator: Authenticator;
  readonly #log: Log;
  readonly #answers: Answers | undefined;
  #server: Bun.Server<undefined> | undefined;
  #draining = false;

  constructor({ routes, authenticator, log, answers }: ServerParts) {
    this.#router = new Router(routes);
    this.#authenticator = authenticator;
    this.#log = log;
    this.#answers = answers;
  }

  /** From the next request on; those under way keep the handlers they have. */
  replaceRoutes(routes: readonly Route[]): void {
    this.#router = new Router(routes);
  }

  get openRequests(): number {
    return this.#server?.pendingRequests ?? 0;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Starts listening; answers the port in use, which matters when 0 was asked for. */
  listen(host: string, port: number, reusePort = false): number {
    this.#server = Bun.serve({
      hostname: host,
      port,
      reusePort,
      // Streams may be silent for minutes while a model thinks; our own deadlines cut them.
      idleTimeout: 0,
      maxRequestBodySize: bodyBytesCeiling,
      fetch: (request) => this.#serve(request),
      error: (thrown) => this.#lastResort(thrown),
    });
    return this.#server.port ?? port;
  }

  /** Refuses new work, waits for running requests up to the limit, then closes every connection. */
  async drain(seconds: number): Promise<void> {
    this.#draining = true;
    const until = performance.now() + seconds * 1000;
    while ((this.#server?.pendingRequests ?? 0) > 0 && performance.now() < until) {
      await Bun.sleep(drainPollMs);
    }
    await this.#server?.stop(true);
  }

  async #serve(request: Request): Promise<Response> {
    const exchange = new Exchange(request);
    let response: Response;
    try {
      response = await this.#dispatch(exchange);
    } catch (thrown) {
      response = this.#refuse(exchange, thrown);
    }
    this.#answers?.count(exchange.pattern, response.status);
    return response;
  }

  #dispatch(exchange: Exchange): Response | Promise<Response> {
    const { request } = exchange;
    if (request.method === 'OPTIONS') return preflight(exchange);
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    const match = this.#router.match(method, exchange.route.path);
    if (!match) throw this.#unknownRoute(method, exchange);
    exchange.open(match);
    const { route } = match;
    if (route.access === 'public') return route.handle(exchange);
    if (this.#draining) {
      exchange.headers.connection = 'close';
      const message = 'This Tollgate is shutting down; send the request again.';
      throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 1 });
    }
    if (route.access === 'admin') {
      return admitAdmin(request, this.#authenticator).then(() => route.handle(exchange));
    }
    const caller = admitKey(route, request, this.#authenticator);
    if (caller instanceof Promise) return caller.then((it) => route.handle(exchange, it));
    return route.handle(exchange, caller);
  }

  #unknownRoute(method: string, exchange: Exchange): GatewayError {
    const { path } = exchange.route;
    const allowed = this.#router.methodsOf(path);
    const [usual] = allowed;
    if (usual) {
      const { errorShape } = this.#router.match(usual, path)?.route ?? {};
      exchange.errorShape = errorShape ?? exchange.errorShape;
      exchange.headers.allow = allowed.join(', ');
      return invalidRequest(
        `${method} is not allowed here; use ${allowed.join(' or ')}.`,
        undefined,
        405,
      );
    }
    const hint = this.#router.hint(method, path);
    return invalidRequest(`There is no ${method} ${path}.${hint}`, undefined, 404);
  }

  #refuse(exchange: Exchange, thrown: unknown): Response {
    const error = asGatewayError(thrown);
    if (error.symbol === 'internal_error' || error.symbol === 'service_unavailable') {
      this.#log.error('request_failed', {
        request_id: exchange.requestId,
        path: exchange.route.path,
        symbol: error.symbol,
        reason: reason(error.cause ?? error),
      });
    }
    return errorReply(exchange, error);
  }

  #lastResort(thrown: unknown): Response {
    this.#log.error('unexpected_failure', { reason: reason(thrown) });
    const message = 'Tollgate failed to handle this request.';
    const body = { error: { message, type: 'internal_error', code: 500, param: null } };
    return Response.json(body, { status: 500 });
  }
}

/** Browsers ask first; SDKs send many headers of their own, so whatever they ask for is allowed. */
function preflight({ request, headers }: Exchange): Response {
  return new Response(null, {
    status: 204,
    headers: {
      ...headers,
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
      'access-control-allow-headers': request.headers.get('access-control-request-headers') ?? '*',
      'access-control-max-age': '86400',
    },
  });
}
