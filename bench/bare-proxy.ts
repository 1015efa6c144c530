/**
 * The least a proxy can do: hand the bytes on in both directions, stop the upstream when the client
 * leaves. It checks nothing, counts nothing, bills nothing. Run as `bun bench/bare-proxy.ts <url>`.
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
    const type = response.headers.get('content-type') ?? 'application/json';
    const headers = { 'content-type': type };
    if (!response.body || !type.startsWith('text/event-stream')) {
      return new Response(await response.arrayBuffer(), { status: response.status, headers });
    }
    return new Response(relay(response.body), { status: response.status, headers });
  },
});
process.stdout.write(`ready at ${server.url.origin}\n`);
