import { expect, test } from 'bun:test';
import { unencryptedHost } from './connection.ts';

test.each([
  ['postgres://u:p@db.internal/x', 'db.internal'],
  ['postgres://u:p@10.0.0.5:5433/x?sslmode=disable', '10.0.0.5'],
  ['postgresql://u:p@db.internal/x', 'db.internal'],
  ['postgres://u:p@db.internal/x?sslmode=verify-full', undefined],
  ['postgres://u:p@db.internal/x?sslmode=require', undefined],
  ['postgres://u:p@db.internal/x?sslmode=no-verify', undefined],
  ['postgres://u:p@localhost/x', undefined],
  ['postgres://u:p@127.0.0.1/x', undefined],
  ['postgres://u:p@[::1]/x', undefined],
  ['postgres:///x?host=/var/run/postgresql', undefined],
  ['sqlite:./data/tollgate.db', undefined],
])('unencryptedHost of %s is %p', (url, host) => {
  expect(unencryptedHost(url)).toBe(host);
});
