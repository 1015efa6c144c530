/** Tests the private addresses that an operator allows, and those that stay rejected. */
import { afterEach, describe, expect, test } from 'bun:test';
import { networkInterfaces } from 'node:os';
import {
  bounds,
  closePeers,
  inside,
  listen,
  redirect,
  text,
} from '../../../tests/support/guarded-peer.ts';
import { checkUserUrl, policyWith, publicOnly } from './address-policy.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import { guardTarget } from './pinned-call.ts';

afterEach(closePeers);

const ownPort = 8080;
const adminPort = 8081;
const policy = policyWith(
  ['10.1.0.0/16', '192.168.7.9', 'fd12:3456::/32', 'Hooks.Corp.LAN', 'queue', '100.64.0.0/10'],
  () => [ownPort],
);
const notPublic = 'The address is not public.';

/** Returns the pinned hosts of a URL whose name has these addresses, or why it is rejected. */
async function resolveTo(url: string, ...addresses: readonly string[]): Promise<string> {
  const checked = await guardTarget(url, policy, async () => addresses);
  if (!checked.ok) return checked.reason;
  return checked.target.pinnedUrls.map(({ host }) => host).join(' ');
}

/** Returns why a URL is rejected, or null. */
function rejection(url: string, by = policy): string | null {
  const checked = checkUserUrl(url, by);
  return checked.ok ? null : checked.reason;
}

describe('policyWith', () => {
  test.each([
    'http://10.1.0.0/',
    'https://10.1.255.255:8443/hook',
    'http://192.168.7.9:3000/',
    'http://[fd12:3456:ffff::1]:9000/',
    'http://100.64.0.1/',
    'http://8.8.8.8/',
  ])('allows the listed or public %s', (url) => {
    expect(rejection(url)).toBeNull();
  });

  test.each([
    'http://10.0.255.255/',
    'http://10.2.0.0/',
    'http://192.168.7.8/',
    'http://192.168.7.10/',
    'http://[fd12:3457::1]/',
    'http://127.0.0.1/',
    'http://[::ffff:10.1.0.1]/',
  ])('rejects the unlisted %s', (url) => {
    expect(rejection(url)).toBe(notPublic);
  });

  test('rejects database ports at listed addresses', () => {
    expect(rejection('http://10.1.0.1:6379/')).toBe('The URL must not use port 6379.');
  });

  test('does not change publicOnly', () => {
    expect(rejection('http://10.1.0.1/', publicOnly)).toBe(notPublic);
    expect(rejection('http://queue/', publicOnly)).toBe(notPublic);
  });
});

describe('guardTarget', () => {
  const nowhere = "The host name of the URL doesn't resolve to a public address.";

  test('lets a listed name resolve to any private or public address, but to no others', async () => {
    expect(await resolveTo('http://hooks.corp.lan/a', '172.16.0.1')).toBe('172.16.0.1');
    expect(await resolveTo('http://HOOKS.corp.lan/a', '10.9.0.1', '1.1.1.1')).toBe(
      '10.9.0.1 1.1.1.1',
    );
    expect(await resolveTo('http://queue:3000/', '127.0.0.1')).toBe('127.0.0.1:3000');
    for (const metadata of ['169.254.169.254', '0.0.0.0', '100.100.100.200', 'fd00:ec2::254']) {
      expect(await resolveTo('http://queue:3000/', '10.1.0.1', metadata)).toBe(nowhere);
    }
  });

  test('requires every address of an unlisted name to be allowed', async () => {
    expect(await resolveTo('http://hooks.example/', '10.1.0.1', '10.1.0.2')).toBe(
      '10.1.0.1 10.1.0.2',
    );
    expect(await resolveTo('http://hooks.example/', '10.1.0.1', '1.1.1.1')).toBe(
      '10.1.0.1 1.1.1.1',
    );
    expect(await resolveTo('http://hooks.example/', '10.1.0.1', '10.2.0.1')).toBe(nowhere);
    expect(await resolveTo('http://hooks.example/', '10.2.0.1')).toBe(nowhere);
  });

  test('rejects unlisted internal names without resolving them', async () => {
    for (const name of ['corp.lan', 'a.hooks.corp.lan', 'queues', 'x.internal']) {
      expect(await resolveTo(`http://${name}/`, '10.1.0.1')).toBe(notPublic);
    }
  });
});

test.each(['169.254.169.254', 'metadata.google.internal', '0.0.0.0/0', 'fd00:ec2::254', '::/0'])(
  'policyWith ignores the entry %s',
  async (entry) => {
    const open = policyWith([entry], () => [ownPort]);
    for (const host of ['169.254.169.254', '10.0.0.1', '[fd00:ec2::254]', 'metadata']) {
      expect(rejection(`http://${host}/`, open)).toBe(notPublic);
    }
    const metadata = await guardTarget('http://metadata.google.internal/', open, async () => [
      '169.254.169.254',
    ]);
    expect(metadata).toEqual({ ok: false, reason: notPublic });
  },
);

test("policyWith rejects only the gateway's own ports at the addresses of this machine", () => {
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const openable = own.filter(({ address }) => /^(127|10|192\.168)\.|^(::1$|fd)/.test(address));
  const addresses = ['127.0.0.1', '127.9.9.9', '::1', ...openable.map(({ address }) => address)];
  const open = policyWith(['127.0.0.0/8', '::1', ...addresses], () => [ownPort, adminPort]);
  for (const address of addresses) {
    const host = address.includes(':') ? `[${address}]` : address;
    for (const port of [ownPort, adminPort])
      expect(rejection(`http://${host}:${port}/admin/v1/tenants`, open)).toBe(notPublic);
    expect(rejection(`http://${host}:8082/`, open)).toBeNull();
  }
});

test('createGuardedFetch calls a listed address but not an unlisted redirect target', async () => {
  const peer = await listen(inside, text('accepted'));
  const fetchGuarded = createGuardedFetch(policyWith([inside], () => [ownPort]));
  const call = { ...bounds, method: 'POST', body: '{"a":1}' } as const;
  expect(await fetchGuarded(`http://${inside}:${peer.port}/hook`, call)).toMatchObject({
    ok: true,
    status: 200,
  });
  expect(peer.requests).toEqual([expect.stringMatching(/^POST \/hook HTTP\/1\.1\r\n/)]);
  const away = await listen(inside, redirect('http://127.0.0.2/'));
  expect(await fetchGuarded(`http://${inside}:${away.port}/`, bounds)).toEqual({
    ok: false,
    reason: 'A redirect was rejected: the address is not public.',
  });
});
