import { expect, test } from 'bun:test';
import { addressRanges } from '../core/network-address.ts';
import { createLog } from '../telemetry/log.ts';
import { AuditLog, clientAddress } from './audit.ts';
import { Exchange } from './routes.ts';

const proxies = addressRanges('10.0.0.0/8', 'fd00::/8');

test.each([
  ['a direct client', '203.0.113.7', null, '203.0.113.7'],
  ['a direct client that claims another address', '203.0.113.7', '198.51.100.1', '203.0.113.7'],
  ['a client behind a proxy', '10.1.1.1', '203.0.113.7', '203.0.113.7'],
  ['a client that claims another address', '10.1.1.1', '1.1.1.1, 203.0.113.7', '203.0.113.7'],
  ['a client behind two proxies', '10.1.1.1', '203.0.113.7, 10.2.2.2', '203.0.113.7'],
  ['an IPv4 proxy on an IPv6 socket', '::ffff:10.1.1.1', '203.0.113.7', '203.0.113.7'],
  ['a proxy that appends ports', 'fd00::1', '[2001:db8::1]:80,203.0.113.7:9', '203.0.113.7'],
  ['a proxy that appends an IPv6 address', 'fd00::1', '[2001:db8::1]:80', '2001:db8::1'],
  ['a proxy without the header', '10.1.1.1', null, '10.1.1.1'],
  ['an invalid header', '10.1.1.1', 'unknown', '10.1.1.1'],
])('clientAddress returns the address of %s', (_, peer, forwarded, expected) => {
  expect(clientAddress(peer, forwarded, proxies)).toBe(expected);
});

test('AuditLog bounds the lines for failed sign-ins', () => {
  const lines: string[] = [];
  const audit = new AuditLog(
    createLog((line) => lines.push(line)),
    [],
  );
  const headers = { authorization: `Bearer sk-tg-${'a'.repeat(16)}-secret` };
  const exchange = new Exchange(new Request('http://localhost/v1/key', { headers }));
  for (let count = 0; count < 1_000; count++) audit.signInFailed(exchange, '203.0.113.7');
  expect(lines.length).toBeGreaterThanOrEqual(100);
  // The loop may run past the end of a minute.
  expect(lines.length).toBeLessThanOrEqual(200);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    event: 'audit',
    action: 'sign_in.fail',
    actor: `key_${'a'.repeat(16)}`,
    address: '203.0.113.7',
    request_id: exchange.requestId,
  });
  expect(lines[0]).not.toContain('secret');
});
