/**
 * Returns a port for a server that can't choose a port itself or must restart on the same port. The
 * system assigns only ports above 32,767. This port is lower, so no other process gets it while the
 * server is down.
 */
export function freePort(): number {
  for (let i = 0; i < 100; i += 1) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    if (isFree(port)) return port;
  }
  throw new Error('No port is free.');
}

function isFree(port: number): boolean {
  try {
    Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } }).stop(true);
    return true;
  } catch {
    return false;
  }
}
