/** Tests what guarded fetches send and return, and their limits in bytes and time. */
import { afterEach, expect, test } from 'bun:test';
import { brotliCompressSync } from 'node:zlib';
import { ActiveClock } from '../../../tests/support/active-clock.ts';
import type { Answer } from '../../../tests/support/guarded-peer.ts';
import {
  bounds,
  closePeers,
  guarded,
  inside,
  listen,
  outside,
  reasonOf,
  text,
} from '../../../tests/support/guarded-peer.ts';

afterEach(closePeers);

test('GuardedFetch returns the status, content type, and bytes of a response', async () => {
  const peer = await listen(outside, text('cat', 'Content-Type: image/png\r\n'));
  const result = await guarded()(`http://images.test:${peer.port}/a?b=c#d`, bounds);
  expect(result).toEqual({
    ok: true,
    status: 200,
    contentType: 'image/png',
    bytes: new TextEncoder().encode('cat'),
  });
  const [head = ''] = peer.requests;
  expect(head).toStartWith('GET /a?b=c HTTP/1.1\r\n');
  expect(head.toLowerCase()).toContain(`\r\nhost: images.test:${peer.port}\r\n`);
  expect(head.toLowerCase()).toContain('\r\naccept-encoding: identity\r\n');
});

test('GuardedFetch sends the body and headers except those of the connection', async () => {
  const peer = await listen(outside, text(''));
  await guarded()(`http://hooks.test:${peer.port}/`, {
    ...bounds,
    method: 'POST',
    body: '{"a":1}',
    headers: {
      'Content-Type': 'application/json',
      'Webhook-Signature': 'v1,x',
      Host: 'evil.test',
      'Content-Length': '9999',
      'Proxy-Authorization': 'Basic eA==',
      'Accept-Encoding': 'br',
      'Transfer-Encoding': 'chunked',
      'Keep-Alive': 'timeout=77',
      Expect: '100-continue',
      Upgrade: 'h2c',
      TE: 'trailers',
      Trailer: 'x-late',
    },
  });
  const [request = ''] = peer.requests;
  const lines = request.toLowerCase().split('\r\n');
  expect(lines[0]).toBe('post / http/1.1');
  expect(lines).toContain('content-type: application/json');
  expect(lines).toContain('webhook-signature: v1,x');
  expect(lines).toContain(`host: hooks.test:${peer.port}`);
  expect(lines).toContain('content-length: 7');
  expect(lines).toContain('accept-encoding: identity');
  expect(lines.at(-1)).toBe('{"a":1}');
  expect(request).not.toMatch(/evil|9999|proxy|Basic/i);
  expect(request).not.toMatch(/chunked|=77|100-continue|h2c|trailers|x-late/i);
});

test('GuardedFetch rejects a header with a line break without throwing', async () => {
  const peer = await listen(outside, text(''));
  const result = await guarded()(`http://images.test:${peer.port}/`, {
    ...bounds,
    headers: { 'x-note': 'a\r\nx-injected: b' },
  });
  expect(reasonOf(result)).toBe('The request has a malformed header.');
  expect(peer.requests).toEqual([]);
});

test('GuardedFetch reads a body of bodyBytesMax bytes and rejects a longer one', async () => {
  const fits = await listen(outside, text('a'.repeat(1000)));
  const declared = await listen(outside, text('a'.repeat(1001)));
  const undeclared = await listen(outside, (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${'a'.repeat(1001)}`),
  );
  const results = await Promise.all(
    [fits, declared, undeclared].map((peer) => guarded()(`http://a.test:${peer.port}/`, bounds)),
  );
  const tooLarge = 'The response is larger than 1000 bytes.';
  expect(results.map(reasonOf)).toEqual(['answered 200', tooLarge, tooLarge]);
});

test('GuardedFetch rejects a content-length above bodyBytesMax without reading', async () => {
  const peer = await listen(outside, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n'),
  );
  using activeClock = new ActiveClock();
  const result = await guarded()(`http://a.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('The response is larger than 1000 bytes.');
  await peer.closed;
  // Without a cancel, garbage collection would close the connection after about a second.
  expect(activeClock.ms).toBeLessThan(500);
});

test('GuardedFetch closes its connection after a response', async () => {
  const peer = await listen(outside, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
  );
  const result = await guarded()(`http://a.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('answered 200');
  await peer.closed;
});

test('GuardedFetch stops reading an endless body soon after bodyBytesMax', async () => {
  let bytesWritten = 0;
  const block = `100000\r\n${'a'.repeat(0x100000)}\r\n`;
  const peer = await listen(outside, (socket) => {
    const flood = () => {
      while (!socket.destroyed) {
        bytesWritten += block.length;
        if (!socket.write(block)) return;
      }
    };
    socket.on('drain', flood);
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    flood();
  });
  const result = await guarded()(`http://flood.test:${peer.port}/`, {
    ...bounds,
    bodyBytesMax: 1_000_000,
  });
  expect(reasonOf(result)).toMatch(/larger than 1000000 bytes/);
  await peer.closed;
  // Kernel buffers on both ends hold a few megabytes. A reader without a limit takes hundreds.
  expect(bytesWritten).toBeLessThan(32 * 1024 * 1024);
});

test('GuardedFetch rejects a compressed body without decompressing it', async () => {
  const bomb = brotliCompressSync(Buffer.alloc(10_000_000));
  const peer = await listen(outside, (socket) => {
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: ${bomb.length}\r\n\r\n`,
    );
    socket.end(bomb);
  });
  const result = await guarded()(`http://bomb.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('The server sent a compressed response.');
});

test('GuardedFetch rejects endless headers', async () => {
  const peer = await listen(outside, (socket) => {
    const flood = () => {
      while (!socket.destroyed && socket.write(`X-A: ${'a'.repeat(60_000)}\r\n`));
    };
    socket.on('drain', flood);
    socket.write('HTTP/1.1 200 OK\r\n');
    flood();
  });
  const result = await guarded()(`http://heads.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toMatch(/didn't respond with valid HTTP/);
  await peer.closed;
});

function drip(start: string): Answer {
  return (socket) => {
    socket.write(start);
    const timer = setInterval(() => socket.write('a'), 20);
    socket.on('close', () => clearInterval(timer));
  };
}

test.each([
  ['silent server', () => {}],
  ['slow head', drip('HTTP/1.1 200 OK\r\nX-A: ')],
  ['slow body', drip('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n')],
])('GuardedFetch times out and closes the socket of a %s', async (_, answer) => {
  const peer = await listen(outside, answer);
  using activeClock = new ActiveClock();
  const result = await guarded()(`http://slow.test:${peer.port}/`, { ...bounds, timeoutMs: 300 });
  expect(reasonOf(result)).toBe("The server didn't send a complete response within 300 ms.");
  expect(activeClock.ms).toBeLessThan(2_000);
  await peer.closed;
});

test('GuardedFetch times out while a name is being resolved', async () => {
  const never = guarded(() => new Promise(() => {}));
  const result = await never('http://slow.test/', { ...bounds, timeoutMs: 50 });
  expect(reasonOf(result)).toBe("The server didn't send a complete response within 50 ms.");
});

test('GuardedFetch returns a failure when its signal aborts before or during the call', async () => {
  const peer = await listen(outside, () => leaving.abort());
  const leaving = new AbortController();
  const url = `http://slow.test:${peer.port}/`;
  const during = await guarded()(url, { ...bounds, signal: leaving.signal });
  const before = await guarded()(url, { ...bounds, signal: leaving.signal });
  expect([reasonOf(during), reasonOf(before)]).toEqual(
    new Array(2).fill('The request was canceled.'),
  );
  expect(peer.requests.length).toBe(1);
  await peer.closed;
});

test('GuardedFetch returns a failure for a broken response and a closed port', async () => {
  const short = await listen(outside, (socket) =>
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc'),
  );
  const noise = await listen(outside, (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'));
  const results = await Promise.all([
    guarded()(`http://a.test:${short.port}/`, bounds),
    guarded()(`http://a.test:${noise.port}/`, bounds),
    guarded(async () => ['127.0.0.2'])('http://a.test:1024/', bounds),
  ]);
  expect(results.map(reasonOf)).toEqual([
    "The server closed the connection or didn't respond with valid HTTP.",
    "The server closed the connection or didn't respond with valid HTTP.",
    "The server can't be reached.",
  ]);
});

test('GuardedFetch ignores the HTTP_PROXY environment variable', async () => {
  const peer = await listen(outside, text('cat'));
  const proxy = await listen(inside, text('diverted'));
  process.env.HTTP_PROXY = `http://${inside}:${proxy.port}`;
  try {
    const result = await guarded()(`http://images.test:${peer.port}/`, bounds);
    expect(reasonOf(result)).toBe('answered 200');
  } finally {
    delete process.env.HTTP_PROXY;
  }
  expect([peer.requests.length, proxy.requests.length]).toEqual([1, 0]);
});
