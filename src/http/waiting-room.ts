import { unavailable } from '../core/errors.ts';
import { Exchange } from './exchange.ts';
import { healthRoutes } from './itself/health.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import { preflight, socketAt } from './server.ts';

/** What a server does with requests, apart from where it listens. */
export interface Handlers {
  readonly fetch: (request: Request) => Promise<Response>;
  readonly error: (thrown: Error) => Response;
}

/**
 * Listens while there is no gateway yet: tells probes that the process lives and why it is not
 * ready, and other clients to come again. The gateway takes over the socket with its connections.
 */
export class WaitingRoom {
  #server: Bun.Server<undefined> | undefined;
  #why = '';
  readonly #probes: Router;

  constructor(version: string) {
    const ping = async () => {
      throw new Error(this.#why);
    };
    const routes = healthRoutes({ version, ping, isDraining: () => false });
    const probes = ['/healthz', '/readyz'];
    this.#probes = new Router(routes.filter(({ path }) => probes.includes(path)));
  }

  /** Opens with the first reason; returns the port in use. */
  wait(host: string, port: number, reusePort: boolean, why: string): number {
    this.#why = why;
    this.#server ??= Bun.serve({
      ...socketAt(host, port, reusePort),
      fetch: (request) => this.#serve(request),
    });
    return this.#server.port ?? port;
  }

  /** Undefined when the room was never opened. */
  handOver(handlers: Handlers): Bun.Server<undefined> | undefined {
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
    return errorReply(exchange, unavailable(notYet));
  }
}

const notYet = 'This Tollgate waits for its database; send the request again shortly.';
