import { unavailable } from '../core/errors.ts';
import { type Handlers, listenOptions, preflight } from './listener.ts';
import { errorReply } from './reply.ts';
import { Router } from './router.ts';
import { Exchange } from './routes.ts';
import { healthRoutes } from './system/probes.ts';

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
