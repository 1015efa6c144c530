/**
 * A minimal proxy to compare the gateway with. It forwards bytes, applies backpressure, and cancels
 * the upstream request when the client disconnects. It doesn't authenticate, count, or bill.
 * Run it with `bun bench/bare-proxy.ts <upstream>`.
 */
const upstream = process.argv[2] ?? '';

async function* relay(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const bytes of body) yield bytes;
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const response = await fetch(upstream + pathname, {
      method: request.method,
      headers: {
        'content-type': 'application/json',
        'accept-encoding': 'identity',
        authorization: request.headers.get('authorization') ?? '',
      },
      body: await request.arrayBuffer(),
      signal: request.signal,
      redirect: 'manual',
      decompress: false,
    });
    const { body, status } = response;
    const headers = { 'content-type': response.headers.get('content-type') ?? 'text/plain' };
    return new Response(body && relay(body), { status, headers });
  },
});
process.stdout.write(`ready at ${server.url.origin}\n`);

// This export makes the file a module, so that its names aren't global.
export {};
