import { describe, expect, test } from 'bun:test';
import { checkUserUrl, publicOnly } from './address-policy.ts';

const { isAllowedAddress: isPublicAddress } = publicOnly;

describe('publicOnly.isAllowedAddress', () => {
  test.each(['', '1.2.3', '0x1.2.3.4', '::1.2.3', 'fe80::1%eth0', '[::1]', 'example.com'])(
    'rejects %j, which is not an IP address',
    (text) => expect(isPublicAddress(text)).toBe(false),
  );

  // Each pair is the first and last address between two rejected ranges, to catch a wrong prefix.
  test.each([
    ['1.0.0.0', '9.255.255.255'],
    ['11.0.0.0', '100.63.255.255'],
    ['100.128.0.0', '126.255.255.255'],
    ['128.0.0.0', '168.63.129.15'],
    ['168.63.129.17', '169.253.255.255'],
    ['169.255.0.0', '172.15.255.255'],
    ['172.32.0.0', '191.255.255.255'],
    ['192.0.1.0', '192.0.3.0'],
    ['192.88.98.255', '192.88.100.0'],
    ['192.167.255.255', '192.169.0.0'],
    ['198.17.255.255', '198.20.0.0'],
    ['198.51.99.255', '198.51.101.0'],
    ['203.0.112.255', '203.0.114.0'],
    ['223.255.255.255', '8.8.8.8'],
    ['2001:200::', '2001:db7:ffff::'],
    ['2001:db9::', '2001:ffff::1'],
    ['2003::', '2606:4700:4700::1111'],
    ['2a00:1450:4001:81b::200e', '3ffe:ffff::1'],
    ['3fff:1000::', '2620:4f:8000::1'],
    ['::ffff:8.8.8.8', '64:ff9b::808:808'],
  ])('allows %s and %s', (first, second) => {
    expect([first, second].filter((ip) => !isPublicAddress(ip))).toEqual([]);
  });

  test.each([
    ['0.0.0.0', '0.255.255.255'],
    ['10.0.0.0', '10.255.255.255'],
    ['100.64.0.0', '100.127.255.255'],
    ['127.0.0.0', '127.255.255.255'],
    ['168.63.129.16', '100.100.100.200'],
    ['169.254.0.0', '169.254.255.255'],
    ['172.16.0.0', '172.31.255.255'],
    ['192.0.0.0', '192.0.0.255'],
    ['192.0.2.0', '192.0.2.255'],
    ['192.88.99.0', '192.88.99.255'],
    ['192.168.0.0', '192.168.255.255'],
    ['198.18.0.0', '198.19.255.255'],
    ['198.51.100.0', '198.51.100.255'],
    ['203.0.113.0', '203.0.113.255'],
    ['224.0.0.0', '239.255.255.255'],
    ['240.0.0.0', '255.255.255.255'],
    ['::', '::1'],
    ['::127.0.0.1', '::8.8.8.8'],
    ['::ffff:127.0.0.1', '::ffff:a00:1'],
    ['::ffff:0:7f00:1', '100::1'],
    ['64:ff9b::7f00:1', '64:ff9b::10.0.0.1'],
    ['64:ff9b:1::7f00:1', '64:ff9b:1:ffff::808:808'],
    ['2001::1', '2001:0:4136:e378:8000:63bf:80ff:fffe'],
    ['2001:2::1', '2001:1ff:ffff::'],
    ['2001:10::1', '2001:2f::1'],
    ['2001:db8::', '2001:db8:ffff::1'],
    ['2002:7f00:1::', '2002:808:808::1'],
    ['3fff::', '3fff:fff:ffff::1'],
    ['5f00::1', '4000::1'],
    ['fc00::', 'fdff:ffff::1'],
    ['fd00:ec2::254', 'fd20:ce::254'],
    ['fe80::', 'febf::1'],
    ['fec0::', 'feff::1'],
    ['ff00::', 'ff02::1'],
  ])('rejects %s and %s', (first, second) => {
    expect([first, second].filter(isPublicAddress)).toEqual([]);
  });
});

/** Returns the URL that may be called, or the reason why it is rejected. */
function check(text: string, policy = publicOnly): string {
  const checked = checkUserUrl(text, policy);
  return checked.ok ? checked.url.href : checked.reason;
}

const isAllowed = (text: string, policy = publicOnly) => checkUserUrl(text, policy).ok;

describe('checkUserUrl', () => {
  test.each([
    ['https://example.com/cat.png?size=1', 'https://example.com/cat.png?size=1'],
    ['HTTP://Example.COM:80/', 'http://example.com/'],
    ['https://example.com:8443/x', 'https://example.com:8443/x'],
    ['https://example.com/a#part', 'https://example.com/a'],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/'],
    ['http://8.8.8.8/', 'http://8.8.8.8/'],
    ['http://[2606:4700:4700::1111]:1024/', 'http://[2606:4700:4700::1111]:1024/'],
    ['https://my_bucket.s3.example.com/', 'https://my_bucket.s3.example.com/'],
    ['https://localhost.example.com/', 'https://localhost.example.com/'],
    [`https://${'a'.repeat(63)}.com/`, `https://${'a'.repeat(63)}.com/`],
  ])('accepts %s as %s', (text, href) => {
    expect(isAllowed(text)).toBe(true);
    expect(check(text)).toBe(href);
  });

  test.each([
    'file:///etc/passwd',
    'gopher://example.com/',
    'ftp://example.com/',
    'data:image/png;base64,AAAA',
    'unix:/var/run/docker.sock',
    'javascript:alert(1)',
    'blob:https://example.com/1',
    's3://bucket/key',
    'http:example.com',
    'http:/example.com',
    '//example.com/',
    'example.com',
    '',
    'http+unix://example.com/',
  ])('rejects the scheme of %j', (text) => {
    expect(isAllowed(text)).toBe(false);
  });

  test.each([
    ['https://user@example.com/', /password/],
    ['https://user:secret@example.com/', /password/],
    ['https://:secret@example.com/', /password/],
    ['https://example.com\\@127.0.0.1/', /backslash/],
    [' https://example.com/', /spaces/],
    ['https://exa\tmple.com/', /control/],
    ['https://example.com/\u0000', /control/],
    ['https://example.com/\r\nx: y', /control/],
    ['https://example.com/\u00a0', /spaces/],
    ['https://', /malformed/],
    ['https://[::1/', /malformed/],
    ['https://[fe80::1%25eth0]/', /malformed/],
    ['https://1.2.3.4.5/', /malformed/],
    ['https://example.com:99999/', /malformed/],
    ['https://example.com./', /malformed/],
    ['https://example..com/', /malformed/],
    ['https://.example.com/', /malformed/],
    ['https://exa*mple.com/', /malformed/],
    [`https://${'a'.repeat(64)}.com/`, /malformed/],
    [`https://${'a.'.repeat(127)}com/`, /malformed/],
    [`https://example.com/${'a'.repeat(4_077)}`, /longer/],
  ])('rejects %j', (text, reason) => {
    expect(check(text)).toMatch(reason);
  });

  const notPublic = 'The address is not public.';

  test.each([
    ...['localhost', 'local', 'localdomain', 'internal', 'intranet', 'private', 'corp', 'home'],
    ...['lan', 'svc', 'home.arpa', 'metadata.tencentyun.com'],
  ])('rejects the internal name suffix %s', (suffix) => {
    for (const host of [suffix, `a.${suffix}`, `A.B.${suffix.toUpperCase()}`]) {
      expect(check(`https://${host}/`)).toBe(notPublic);
    }
    expect(isAllowed(`https://a.${suffix}./`)).toBe(false);
    expect(isAllowed(`https://not${suffix}.example.com/`)).toBe(true);
  });

  test.each(['ⓛocalhost', 'metadata', 'kubernetes'])('rejects the single label %s', (host) => {
    expect(check(`http://${host}/`)).toBe(notPublic);
  });

  test.each([
    ...[0, 1, 21, 22, 25, 79, 81, 110, 442, 444, 1_023, 2_049, 2_181, 2_375, 2_376, 2_379, 2_380],
    ...[2_525, 3_306, 3_389, 5_060, 5_061, 5_432, 5_672, 5_900, 5_984, 6_379, 6_443, 6_667, 6_697],
    ...[8_500, 9_042, 9_092, 9_200, 9_300, 10_250, 10_255, 11_211, 26_379, 27_017, 27_018, 27_019],
  ])('rejects port %i', (port) => {
    expect(check(`http://example.com:${port}/`)).toBe(`The URL must not use port ${port}.`);
  });

  test.each([80, 443, 1_024, 3_000, 8_080, 8_443])('allows port %i', (port) => {
    const shown = port === 80 ? '' : `:${port}`;
    const url = `http://example.com${shown}/a.png?b=1`;
    expect(check(`http://example.com:${port}/a.png?b=1#c`)).toBe(url);
  });

  test('allows exactly the host and port pairs in allowHosts', () => {
    const policy = {
      ...publicOnly,
      allowHosts: ['minio.internal:9000', '[::1]:80', 'db.lan:6379'],
    };
    const allowed = ['http://minio.internal:9000/a', 'http://[::1]/', 'http://db.lan:6379/'];
    const rejected = [
      'http://minio.internal:9001/',
      'https://[::1]/',
      'http://a.minio.internal:9000/',
      'http://me@minio.internal:9000/',
    ];
    expect(allowed.map((text) => isAllowed(text, policy))).not.toContain(false);
    expect(rejected.map((text) => isAllowed(text, policy))).not.toContain(true);
  });
});
