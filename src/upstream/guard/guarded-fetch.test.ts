/** What arrives, what comes back, and the bounds in bytes and time. */
import { afterEach, expect, test } from 'bun:test';
import { brotliCompressSync } from 'node:zlib';
import { Awake } from '../../../tests/support/awake.ts';
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

test('an answer comes back with status, type and bytes', async () => {
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

test('a body and headers arrive, those of the connection do not', async () => {
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

test('a header with a line break is refused, not thrown', async () => {
  const peer = await listen(outside, text(''));
  const result = await guarded()(`http://images.test:${peer.port}/`, {
    ...bounds,
    headers: { 'x-note': 'a\r\nx-injected: b' },
  });
  expect(reasonOf(result)).toBe('The request has a malformed header.');
  expect(peer.requests).toEqual([]);
});

test('a body of exactly the bound is read and one byte more is refused', async () => {
  const fits = await listen(outside, text('a'.repeat(1000)));
  const declared = await listen(outside, text('a'.repeat(1001)));
  const undeclared = await listen(outside, (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${'a'.repeat(1001)}`),
  );
  const results = await Promise.all(
    [fits, declared, undeclared].map((peer) => guarded()(`http://a.test:${peer.port}/`, bounds)),
  );
  const tooLarge = 'The answer of the address is larger than 1000 bytes.';
  expect(results.map(reasonOf)).toEqual(['answered 200', tooLarge, tooLarge]);
});

test('a declared size beyond the bound is refused without waiting for the body', async () => {
  const peer = await listen(outside, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n'),
  );
  using awake = new Awake();
  const result = await guarded()(`http://a.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('The answer of the address is larger than 1000 bytes.');
  await peer.closed;
  // Left alone, the connection would be closed by garbage collection after about a second.
  expect(awake.ms).toBeLessThan(500);
});

test('no connection is kept for a later call to another name at the same address', async () => {
  const peer = await listen(outside, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
  );
  const result = await guarded()(`http://a.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('answered 200');
  await peer.closed;
});

test('an endless body is cut soon after the bound', async () => {
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
  // Kernel buffers on both ends hold a few megabytes; a reader without a bound takes hundreds.
  expect(bytesWritten).toBeLessThan(32 * 1024 * 1024);
});

test('a compressed body is refused, never inflated', async () => {
  const bomb = brotliCompressSync(Buffer.alloc(10_000_000));
  const peer = await listen(outside, (socket) => {
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: ${bomb.length}\r\n\r\n`,
    );
    socket.end(bomb);
  });
  const result = await guarded()(`http://bomb.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('The address answered with a compressed body.');
});

test('endless headers are refused', async () => {
  const peer = await listen(outside, (socket) => {
    const flood = () => {
      while (!socket.destroyed && socket.write(`X-A: ${'a'.repeat(60_000)}\r\n`));
    };
    socket.on('drain', flood);
    socket.write('HTTP/1.1 200 OK\r\n');
    flood();
  });
  const result = await guarded()(`http://heads.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toMatch(/did not answer in valid HTTP/);
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
  ['nothing', () => {}],
  ['a head that drips', drip('HTTP/1.1 200 OK\r\nX-A: ')],
  ['a body that drips', drip('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n')],
])('%s is cut by the total timeout and its socket closed', async (_, answer) => {
  const peer = await listen(outside, answer);
  using awake = new Awake();
  const result = await guarded()(`http://slow.test:${peer.port}/`, { ...bounds, timeoutMs: 300 });
  expect(reasonOf(result)).toBe('The address did not answer in full within 300 ms.');
  expect(awake.ms).toBeLessThan(2_000);
  await peer.closed;
});

test('a resolver that never answers is cut by the total timeout', async () => {
  const never = guarded(() => new Promise(() => {}));
  const result = await never('http://slow.test/', { ...bounds, timeoutMs: 50 });
  expect(reasonOf(result)).toBe('The address did not answer in full within 50 ms.');
});

test('a caller that gives up gets a value, before or during the call', async () => {
  const peer = await listen(outside, () => leaving.abort());
  const leaving = new AbortController();
  const url = `http://slow.test:${peer.port}/`;
  const during = await guarded()(url, { ...bounds, signal: leaving.signal });
  const before = await guarded()(url, { ...bounds, signal: leaving.signal });
  expect([reasonOf(during), reasonOf(before)]).toEqual(
    new Array(2).fill('The request was cancelled.'),
  );
  expect(peer.requests.length).toBe(1);
  await peer.closed;
});

test('a broken answer and a closed port are values', async () => {
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
    'The address broke off or did not answer in valid HTTP.',
    'The address broke off or did not answer in valid HTTP.',
    'The address could not be reached.',
  ]);
});

test('proxy settings of the environment do not divert the call', async () => {
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
