/** Tests every notation of a private address against a server that must not be reached. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { createGuardedFetch } from './guarded-fetch.ts';

let canary: Server;
let port = 0;
let connections = 0;

beforeAll(async () => {
  canary = createServer((socket) => {
    connections += 1;
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi');
  });
  // The dual-stack wildcard covers 127.0.0.0/8, 0.0.0.0, ::1, and this machine's own addresses.
  canary.listen(0, '::');
  await once(canary, 'listening');
  const address = canary.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
});

afterAll(() => {
  canary.close();
});

const bounds = { tenantId: 'acme', bodyBytesMax: 100, timeoutMs: 20_000 };

const hosts = [
  // IPv4 loopback in decimal, octal, hexadecimal, short, and escaped notations.
  ...['127.0.0.1', '127.1', '127.0.1', '127.255.255.254', '2130706433', '017700000001'],
  ...['0x7f000001', '0x7f.1', '0x7f.0x0.0x0.0x1', '0177.0.0.1', '0177.1', '00000177.0.0.01'],
  ...['127.0.0.0x1', '0X7F.0.0.1', '127.0.0.1.', '2130706433.', '0x7f000001.', '127.0x000001'],
  ...['%31%32%37.0.0.1', '127%2e0%2e0%2e1', '①②⑦.0.0.1', '①②⑦。⓪。⓪。①', '１２７．０．０．１'],
  ...['127。0。0。1', '127｡0｡0｡1', '𝟏𝟐𝟕.0.0.1', '０ｘ７ｆ.1', '127.0.0.\u00ad1', '1\u200b27.0.0.1'],
  // This host, private, link-local, shared, multicast, reserved, and metadata addresses.
  ...['0', '0.0.0.0', '0x0', '00', '0.0', '0.0.0.0.', '10.0.0.1', '012.0.0.1', '167772161'],
  ...['172.16.0.1', '172.31.255.255', '192.168.0.1', '0xc0a80001', '3232235521', '192.168.1'],
  ...['169.254.169.254', '2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '169.254.43518'],
  ...['100.64.0.1', '100.100.100.200', '192.0.0.192', '168.63.129.16', '224.0.0.1'],
  ...['255.255.255.255', '4294967295', '240.0.0.1', '198.18.0.1'],
  // IPv6, and IPv4 mapped into it.
  ...['[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[0000::0001]', '[::0.0.0.1]', '[::127.0.0.1]'],
  ...['[::7f00:1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::FFFF:7F00:0001]'],
  ...['[0:0:0:0:0:ffff:127.0.0.1]', '[::ffff:0.0.0.0]', '[::ffff:10.0.0.1]'],
  ...['[::ffff:169.254.169.254]', '[::ffff:0:127.0.0.1]', '[64:ff9b::7f00:1]'],
  ...['[64:ff9b::127.0.0.1]', '[64:ff9b::a9fe:a9fe]', '[64:ff9b:1::7f00:1]'],
  ...['[64:ff9b:1:7f00:0:100::]', '[2002:7f00:1::]', '[2002:a00:1::1]'],
  ...['[2001:0:7f00:1::80ff:fffe]', '[2001::1]', '[fe80::1]', '[fe80::1%25lo]', '[fe80::1%lo]'],
  ...['[::1%25lo]', '[::1%lo]', '[fc00::1]', '[fd00:ec2::254]', '[fec0::1]', '[ff02::1]'],
  ...['[2001:db8::1]'],
  // Names of this machine, and public-looking names that resolve to private addresses.
  ...['localhost', 'LocalHost', 'localhost.', 'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ', 'a.localhost', 'localhost.localdomain'],
  ...['ip6-localhost', 'me.local', 'metadata.google.internal', '127.0.0.1.nip.example'],
];

test('The server accepts connections from a fetch without restrictions', async () => {
  const permissive = createGuardedFetch({ isAllowedAddress: () => true });
  for (const host of ['127.0.0.1', '[::ffff:7f00:1]', '0.0.0.0']) {
    const before = connections;
    expect(await permissive(`http://${host}:${port}/`, bounds)).toMatchObject({ ok: true });
    expect(connections).toBe(before + 1);
  }
});

test.each(hosts)('GuardedFetch rejects %s without connecting', async (host) => {
  const guardedFetch = createGuardedFetch({ resolve: async () => ['127.0.0.1'] });
  const before = connections;
  for (const scheme of ['http', 'https']) {
    const result = await guardedFetch(`${scheme}://${host}:${port}/`, bounds);
    expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/public|malformed/) });
  }
  expect(connections).toBe(before);
});

test('The server has accepted only connections from unrestricted fetches', async () => {
  // Any earlier connection is accepted before the one of this last fetch.
  const permissive = createGuardedFetch({ isAllowedAddress: () => true });
  await permissive(`http://127.0.0.1:${port}/`, bounds);
  expect(connections).toBe(4);
});
