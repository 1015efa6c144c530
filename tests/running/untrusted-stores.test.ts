/** Checks that stores with untrusted certificates get no data. */
import { expect, test } from 'bun:test';
import { run } from '../support/gateway.ts';

/** Self-signed for localhost, and used only here. */
const tls = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBlTCCATugAwIBAgIUBV53W+PiNge8oEr/b0FccmRb5i8wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExOTE4MzMzMloYDzIxMjYxMDI2
MTgzMzMyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAREuDLEYPXoeupZ+r2n61f1sWhGBO8TCXf0IOLg/O39NxWgzPgDQyyb
L9gutNqPcByFBjs81J0/Ro6CYG1MTewKo2kwZzAdBgNVHQ4EFgQUh1W58XwQr2yj
dPLIu/+1ZVA0T7IwHwYDVR0jBBgwFoAUh1W58XwQr2yjdPLIu/+1ZVA0T7IwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
SAAwRQIgQuiYUFtwZyNn7kTxBjQevTHiIDGtS0MPr5UR8T3Tb+0CIQDtDC7MN1RX
FsY4hkioo+WthP19Nqw0LNabqVBJ+v/jlw==
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg21PmXGncEtzf1RS5
mDBJ8I5ivC6yhKOwx8F86vih5jOhRANCAAREuDLEYPXoeupZ+r2n61f1sWhGBO8T
CXf0IOLg/O39NxWgzPgDQyybL9gutNqPcByFBjs81J0/Ro6CYG1MTewK
-----END PRIVATE KEY-----
`,
};

test('NODE_TLS_REJECT_UNAUTHORIZED does not disable certificate checks for Redis and S3', async () => {
  const received: string[] = [];
  using server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    tls,
    socket: { data: (_, bytes) => void received.push(bytes.toString()) },
  });
  const env = {
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
    REDIS_URL: `rediss://:secret@localhost:${server.port}`,
    OBJECTS_URL: `s3://bucket?endpoint=https://localhost:${server.port}`,
    AWS_ACCESS_KEY_ID: 'id',
    AWS_SECRET_ACCESS_KEY: 'secret',
  };
  const { exitCode, stdout } = await run(['doctor'], { env });
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/✗ +Redis/i);
  expect(received).toEqual([]);
}, 120_000);
