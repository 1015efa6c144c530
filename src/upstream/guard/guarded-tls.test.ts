/**
 * Tests that certificates are checked against the host name, even though the call uses an address.
 * The authority and both leaves were created for this test and are not used elsewhere.
 */
import { afterAll, expect, test } from 'bun:test';
import { createGuardedFetch } from './guarded-fetch.ts';

/** Signs the leaves below. Its private key no longer exists. */
const authority = `-----BEGIN CERTIFICATE-----
MIIBizCCATGgAwIBAgIUSVFNQVLDfyuUSQTl4V8eczYByiMwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHVGVzdCBDQTAgFw0yNjExMTUwMjAxNTNaGA8yMTI2MTAyMjAy
MDE1M1owEjEQMA4GA1UEAwwHVGVzdCBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABF+a1kbU/jRuKHdUevcfX0MtEF0YoSe0LZ7ld6ZylSnELsFoUc2YKFGSrDUu
+T1vjJ0Nd9ERk90Tr+PUhQX5Hc2jYzBhMB0GA1UdDgQWBBSGEb+n3IOlJUxvppzu
VPfcsh3q+jAfBgNVHSMEGDAWgBSGEb+n3IOlJUxvppzuVPfcsh3q+jAPBgNVHRMB
Af8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAKBggqhkjOPQQDAgNIADBFAiEAzdEG
ek2Bvcb4gQRAPX7EvJ27cmQDX5ICSehuVnmqXeQCIADHYoFurva2/+JMEkDQQviv
tg+2MyGVaMzMAO4g/+IS
-----END CERTIFICATE-----
`;

const key = `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIECBbpjOgSvm1co1CkDE0Ww7jfvmzWNj83dsHv1ov2k+oAoGCCqGSM49
AwEHoUQDQgAEc1T7vSY3PMQE+VoxxDH8IaAgeiI1vHhUCk+/prilJH7XUEQrLyk0
qgUiRV36gLZs31mrlKYuQuTV7iW3Il4Phg==
-----END EC PRIVATE KEY-----
`;

/** A certificate for the name images.test. */
const namedLeaf = `-----BEGIN CERTIFICATE-----
MIIBhjCCASygAwIBAgIUQ1h08Okz+5re9yGn0T6pc0R7iGswCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHVGVzdCBDQTAgFw0yNjExMTUwMjAxNTNaGA8yMTI2MTAyMjAy
MDE1M1owFjEUMBIGA1UEAwwLaW1hZ2VzLnRlc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARzVPu9Jjc8xAT5WjHEMfwhoCB6IjW8eFQKT7+muKUkftdQRCsvKTSq
BSJFXfqAtmzfWauUpi5C5NXuJbciXg+Go1owWDAWBgNVHREEDzANggtpbWFnZXMu
dGVzdDAdBgNVHQ4EFgQUUBAO8KrApRnv3v4/vgOV+I6FdS8wHwYDVR0jBBgwFoAU
hhG/p9yDpSVMb6ac7lT33LId6vowCgYIKoZIzj0EAwIDSAAwRQIgGquMXjwYyES1
9pmV/xeLBGdlQ2SXuJsIBqS5Hb7uY8kCIQDXQ33F243wKAcSgYDV/ZYnDNmNeFYq
V0AJo+6B5L8/mQ==
-----END CERTIFICATE-----
`;

/** A certificate for the address 127.0.0.2. */
const addressLeaf = `-----BEGIN CERTIFICATE-----
MIIBejCCASGgAwIBAgIUQ1h08Okz+5re9yGn0T6pc0R7iGwwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHVGVzdCBDQTAgFw0yNjExMTUwMjA1MjJaGA8yMTI2MTAyMjAy
MDUyMlowEjEQMA4GA1UEAwwHaXAgbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABHNU+70mNzzEBPlaMcQx/CGgIHoiNbx4VApPv6a4pSR+11BEKy8pNKoFIkVd
+oC2bN9Zq5SmLkLk1e4ltyJeD4ajUzBRMA8GA1UdEQQIMAaHBH8AAAIwHQYDVR0O
BBYEFFAQDvCqwKUZ797+P74DlfiOhXUvMB8GA1UdIwQYMBaAFIYRv6fcg6UlTG+m
nO5U99yyHer6MAoGCCqGSM49BAMCA0cAMEQCIHZsSEd4cINLMgVGioQ3VRS5LW7v
NwnUiH0mszZ5NQggAiA84dr0qx8wiwHYA/4coZS67jzehq+YdRCWNx7rgTOt6g==
-----END CERTIFICATE-----
`;

const outside = '127.0.0.2';
const bounds = { tenantId: 'acme', bodyBytesMax: 1000, timeoutMs: 20_000 };
const notTrusted = {
  ok: false,
  reason: "The server's certificate isn't trusted or is for another name.",
} as const;

let requests = 0;
const named = serve(namedLeaf);
const byAddress = serve(addressLeaf);

afterAll(async () => {
  await Promise.all([named.stop(true), byAddress.stop(true)]);
});

function serve(cert: string) {
  return Bun.serve({
    hostname: outside,
    port: 0,
    tls: { key, cert },
    fetch(request) {
      requests += 1;
      const { pathname, search } = new URL(request.url);
      if (pathname === '/to') return Response.redirect(search.slice(1), 302);
      return new Response(request.headers.get('host'));
    },
  });
}

function guarded() {
  return createGuardedFetch({
    resolve: async () => [outside],
    isAllowedAddress: (ip) => ip === outside,
    trustedCertificates: authority,
  });
}

test('GuardedFetch accepts a certificate for the host name at the pinned address', async () => {
  const result = await guarded()(`https://images.test:${named.port}/`, bounds);
  expect(result).toMatchObject({ ok: true, status: 200 });
  const host = result.ok ? new TextDecoder().decode(result.bytes) : '';
  expect(host).toBe(`images.test:${named.port}`);
});

test.each(['other.test', 'images.test.evil.test', 'a.images.test', outside])(
  'GuardedFetch rejects a certificate that is not for %s, even after a valid call',
  async (host) => {
    const good = await guarded()(`https://images.test:${named.port}/`, bounds);
    expect(good.ok).toBe(true);
    const before = requests;
    expect(await guarded()(`https://${host}:${named.port}/`, bounds)).toEqual(notTrusted);
    expect(requests).toBe(before);
  },
);

test('GuardedFetch requires a certificate for a literal address', async () => {
  const literal = await guarded()(`https://${outside}:${byAddress.port}/`, bounds);
  expect(literal).toMatchObject({ ok: true, status: 200 });
  const name = await guarded()(`https://images.test:${byAddress.port}/`, bounds);
  expect(name).toEqual(notTrusted);
});

test('GuardedFetch rejects a certificate from an unknown authority', async () => {
  const builtIn = createGuardedFetch({
    resolve: async () => [outside],
    isAllowedAddress: (ip) => ip === outside,
  });
  expect(await builtIn(`https://images.test:${named.port}/`, bounds)).toEqual(notTrusted);
});

test('GuardedFetch ignores a Host header when it checks the certificate', async () => {
  const headers = { host: 'images.test' };
  const result = await guarded()(`https://other.test:${named.port}/`, { ...bounds, headers });
  expect(result).toEqual(notTrusted);
});

test('GuardedFetch ignores NODE_TLS_REJECT_UNAUTHORIZED', async () => {
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  try {
    expect(await guarded()(`https://other.test:${named.port}/`, bounds)).toEqual(notTrusted);
  } finally {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
  }
});

test('GuardedFetch rejects redirects to http and checks the certificate on every hop', async () => {
  const start = `https://images.test:${named.port}/to?`;
  const down = await guarded()(`${start}http://images.test:${named.port}/`, bounds);
  expect(down).toEqual({ ok: false, reason: 'The URL redirects from https to http.' });
  const wrong = await guarded()(`${start}https://other.test:${named.port}/`, bounds);
  expect(wrong).toEqual(notTrusted);
  const right = await guarded()(`${start}https://images.test:${named.port}/`, bounds);
  expect(right).toMatchObject({ ok: true, status: 200 });
});
