/**
 * A port for a server that cannot choose one itself, or that starts again on the same port. The
 * system gives out ports above 32,767, perhaps that of a server which is down for a moment in
 * another test process; it never gives out a port of the range used here.
 */
export function freePort(): number {
  for (let turn = 0; turn < 100; turn += 1) {
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
