/** Tests DNS rebinding, names with several addresses, and redirects. */
import { afterEach, expect, test } from 'bun:test';
import { ActiveClock } from '../../../tests/support/active-clock.ts';
import {
  bounds,
  closePeers,
  guarded,
  inside,
  listen,
  outside,
  reasonOf,
  redirect,
  text,
} from '../../../tests/support/guarded-peer.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import type { ResolveHost } from './host-names.ts';

afterEach(closePeers);

test('GuardedFetch resolves a name once per call, so rebinding cannot redirect it', async () => {
  // Start the private server first, because its port is then also free at the other address.
  const canary = await listen(inside, text('secret'));
  const peer = await listen(outside, text('cat'), canary.port);
  const answers = [[outside], [inside], [inside]];
  let resolutions = 0;
  const guardedFetch = guarded(async () => {
    resolutions += 1;
    return answers[resolutions - 1] ?? [];
  });
  const url = `http://rebind.test:${peer.port}/`;
  expect(reasonOf(await guardedFetch(url, bounds))).toBe('answered 200');
  expect(resolutions).toBe(1);
  expect(peer.requests.length).toBe(1);
  // The same URL is rejected once its name resolves to a private address.
  expect(reasonOf(await guardedFetch(url, bounds))).toMatch(/doesn't resolve to a public address/);
  expect(canary.requests).toEqual([]);
});

test.each([
  [[outside, inside]],
  [[inside, outside]],
  [[outside, '::1']],
  [[outside, 'fe80::1%eth0']],
  [[outside, 'not an address']],
  [[]],
])('GuardedFetch rejects a name that resolves to %j', async (addresses) => {
  const canary = await listen(inside, text('secret'));
  const peer = await listen(outside, text('cat'), canary.port);
  const result = await guarded(async () => addresses)(`http://mixed.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toMatch(/doesn't resolve to a public address/);
  expect([...peer.requests, ...canary.requests]).toEqual([]);
});

test('GuardedFetch gives the same reason for unknown and internal names', async () => {
  const unknown = guarded(async () => {
    throw Object.assign(new Error('getaddrinfo ENOTFOUND db.example.com'), { code: 'ENOTFOUND' });
  });
  const inner = guarded(async () => ['10.1.2.3']);
  const url = 'http://db.example.com/';
  const reason = reasonOf(await inner(url, bounds));
  expect(reasonOf(await unknown(url, bounds))).toBe(reason);
  expect(reason).not.toMatch(/10\.1|ENOTFOUND|db\.example/);
});

test('GuardedFetch tries the next address when one refuses, IPv4 first', async () => {
  const canary = await listen(inside, text('six'));
  const peer = await listen(outside, text('cat'), canary.port);
  const guardedFetch = createGuardedFetch({
    resolve: async () => ['::ffff:7f00:1', '127.0.0.3', outside],
    isAllowedAddress: () => true,
  });
  const result = await guardedFetch(`http://many.test:${peer.port}/`, {
    ...bounds,
    method: 'POST',
    body: 'once',
  });
  expect(reasonOf(result)).toBe('answered 200');
  expect([peer.requests.length, canary.requests.length]).toEqual([1, 0]);
});

test('GuardedFetch does not resend a request that was already sent', async () => {
  const first = await listen(inside, (socket) => socket.destroy());
  const second = await listen(outside, text('again'), first.port);
  const guardedFetch = createGuardedFetch({
    resolve: async () => [inside, outside],
    isAllowedAddress: () => true,
  });
  const result = await guardedFetch(`http://many.test:${first.port}/`, {
    ...bounds,
    method: 'POST',
    body: 'once',
  });
  expect(reasonOf(result)).toBe(
    "The server closed the connection or didn't respond with valid HTTP.",
  );
  expect([first.requests.length, second.requests.length]).toEqual([1, 0]);
});

test('GuardedFetch allows a private host in allowHosts on its port only', async () => {
  const peer = await listen(inside, text('ok'));
  const other = await listen(inside, text('secret'));
  const guardedFetch = createGuardedFetch({
    resolve: async () => [inside],
    allowHosts: [`minio.internal:${peer.port}`],
  });
  const allowed = await guardedFetch(`http://minio.internal:${peer.port}/`, bounds);
  const rejected = await guardedFetch(`http://minio.internal:${other.port}/`, bounds);
  expect(reasonOf(allowed)).toBe('answered 200');
  expect(reasonOf(rejected)).toBe('The address is not public.');
  expect(other.requests).toEqual([]);
});

test("GuardedFetch allows a call's own allowedHost for that call only", async () => {
  const peer = await listen(inside, text('ok'));
  const other = await listen(inside, text('ok'));
  const guardedFetch = createGuardedFetch({
    resolve: async () => [inside],
    allowHosts: [`minio.internal:${other.port}`],
  });
  const url = `http://images.internal:${peer.port}/`;
  const allowing = { ...bounds, allowedHost: `images.internal:${peer.port}` };
  const answers = [
    await guardedFetch(url, allowing),
    await guardedFetch(`http://minio.internal:${other.port}/`, allowing),
    await guardedFetch(url, bounds),
    await guardedFetch(`http://images.internal:${other.port}/`, allowing),
  ];
  const rejected = 'The address is not public.';
  expect(answers.map(reasonOf)).toEqual(['answered 200', 'answered 200', rejected, rejected]);
  expect([peer.requests.length, other.requests.length]).toEqual([1, 1]);
});

test.each([
  ['http://127.0.0.1:PORT/', /redirect was rejected: the address is not public/],
  ['http://[::ffff:7f00:1]:PORT/', /redirect was rejected: the address is not public/],
  ['http://inner.test:PORT/', /doesn't resolve to a public address/],
  ['//127.1:PORT/', /redirect was rejected: the address is not public/],
  ['http://user:pass@images.test:PORT/', /password/],
  ['http://images.test:6379/', /port 6379/],
  ['file:///etc/passwd', /must start with http/],
  ['gopher://images.test/', /must start with http/],
  ['http://[bad/', /malformed/],
])('GuardedFetch rejects a redirect to %s', async (location, reason) => {
  const canary = await listen(inside, text('secret'));
  const peer = await listen(outside, redirect(location.replace('PORT', String(canary.port))));
  const resolve: ResolveHost = async (host) => [host === 'inner.test' ? inside : outside];
  const result = await guarded(resolve)(`http://images.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toMatch(reason);
  expect(canary.requests).toEqual([]);
  expect(peer.requests.length).toBe(1);
});

test('GuardedFetch follows 3 redirects, resolves each, and rejects the fourth', async () => {
  const resolved: string[] = [];
  const guardedFetch = guarded(async (host) => {
    resolved.push(host);
    return [outside];
  });
  const end = await listen(outside, text('cat'));
  const third = await listen(outside, redirect(`http://d.test:${end.port}/`, 308));
  const second = await listen(outside, redirect(`http://c.test:${third.port}/`, 307));
  const first = await listen(outside, redirect(`http://b.test:${second.port}/`, 303));
  const result = await guardedFetch(`http://a.test:${first.port}/`, bounds);
  expect(reasonOf(result)).toBe('answered 200');
  expect(resolved).toEqual(['a.test', 'b.test', 'c.test', 'd.test']);

  const zero = await listen(outside, redirect(`http://a.test:${first.port}/`, 301));
  const tooFar = await guardedFetch(`http://z.test:${zero.port}/`, bounds);
  expect(reasonOf(tooFar)).toBe('The URL redirects more than 3 times.');
  expect(end.requests.length).toBe(1);
});

test.each(['/again', ''])(
  'GuardedFetch stops a redirect loop to %j after 4 requests',
  async (location) => {
    const peer = await listen(outside, redirect(location));
    const result = await guarded()(`http://loop.test:${peer.port}/again`, bounds);
    expect(reasonOf(result)).toBe('The URL redirects more than 3 times.');
    expect(peer.requests.length).toBe(4);
  },
);

test('GuardedFetch rejects a name that resolves to a private address after a redirect', async () => {
  const canary = await listen(inside, text('secret'));
  const peer = await listen(outside, redirect('/next'), canary.port);
  const answers = [[outside], [inside]];
  const result = await guarded(async () => answers.shift() ?? [])(
    `http://rebind.test:${peer.port}/`,
    bounds,
  );
  expect(reasonOf(result)).toMatch(/doesn't resolve to a public address/);
  expect([peer.requests.length, canary.requests.length]).toEqual([1, 0]);
});

test('GuardedFetch drops secret headers when a redirect changes the origin', async () => {
  const end = await listen(outside, text('cat'));
  const middle = await listen(outside, redirect(`http://two.test:${end.port}/`));
  const answers = [redirect('/same'), redirect(`http://one.test:${middle.port}/`)];
  const first = await listen(outside, (socket) => answers.shift()?.(socket));
  await guarded()(`http://one.test:${first.port}/`, {
    ...bounds,
    headers: { Authorization: 'Bearer k', Cookie: 'c=1', 'X-Key': 'k', Accept: 'image/*' },
  });
  const secrets = /authorization|cookie|x-key/i;
  expect(first.requests.map((request) => secrets.test(request))).toEqual([true, true]);
  expect(middle.requests.map((request) => secrets.test(request))).toEqual([false]);
  expect(end.requests.map((request) => secrets.test(request))).toEqual([false]);
  expect(end.requests[0]).toMatch(/accept: image\/\*/i);
  expect(end.requests[0]).toMatch(/accept-encoding: identity/i);
});

test('GuardedFetch returns a redirect of a POST without following it', async () => {
  const canary = await listen(outside, text('cat'));
  const peer = await listen(outside, redirect(`http://images.test:${canary.port}/`, 307));
  const result = await guarded()(`http://images.test:${peer.port}/`, {
    ...bounds,
    method: 'POST',
    body: 'event',
  });
  expect(reasonOf(result)).toBe('answered 307');
  expect(canary.requests).toEqual([]);
});

test('GuardedFetch closes the connection of a redirect without reading its body', async () => {
  let end = '';
  const peer = await listen(outside, (socket) => {
    const head = `HTTP/1.1 302 Go\r\nLocation: ${end}`;
    socket.write(`${head}\r\nContent-Length: 900\r\n\r\nnever the rest`);
  });
  const next = await listen(outside, (socket) => {
    void peer.closed.then(() => text('cat')(socket));
  });
  end = `http://b.test:${next.port}/`;
  using activeClock = new ActiveClock();
  const result = await guarded()(`http://a.test:${peer.port}/`, bounds);
  expect(reasonOf(result)).toBe('answered 200');
  // Without a cancel, garbage collection would close the connection after about a second.
  expect(activeClock.ms).toBeLessThan(500);
});

test('GuardedFetch rejects a resolver result that is not an address, even in allowHosts', async () => {
  const peer = await listen(inside, text('ok'));
  const guardedFetch = createGuardedFetch({
    resolve: async () => ['localhost'],
    allowHosts: [`minio.internal:${peer.port}`],
  });
  const result = await guardedFetch(`http://minio.internal:${peer.port}/`, bounds);
  expect(reasonOf(result)).toMatch(/doesn't resolve to a public address/);
  expect(peer.requests).toEqual([]);
});
