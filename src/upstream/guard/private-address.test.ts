/** Private places that the operator opens to the addresses of users, and those that stay shut. */
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
const policy = policyWith(
  ['10.1.0.0/16', '192.168.7.9', 'fd12:3456::/32', 'Hooks.Corp.LAN', 'queue', '100.64.0.0/10'],
  () => ownPort,
);
const notPublic = 'The address is not public.';

/** What comes of a URL whose name has these addresses. */
async function led(url: string, ...addresses: readonly string[]): Promise<string> {
  const found = await guardTarget(url, policy, async () => addresses);
  return typeof found === 'string' ? found : found.pinnedUrls.map(({ host }) => host).join(' ');
}

describe('an address that the operator lists', () => {
  test.each([
    'http://10.1.0.0/',
    'https://10.1.255.255:8443/hook',
    'http://192.168.7.9:3000/',
    'http://[fd12:3456:ffff::1]:9000/',
    'http://100.64.0.1/',
    'http://8.8.8.8/',
  ])('%s may be called', (url) => {
    expect(checkUserUrl(url, policy)).toBeInstanceOf(URL);
  });

  test.each([
    'http://10.0.255.255/',
    'http://10.2.0.0/',
    'http://192.168.7.8/',
    'http://192.168.7.10/',
    'http://[fd12:3457::1]/',
    'http://127.0.0.1/',
    'http://[::ffff:10.1.0.1]/',
  ])('opens nothing beside it: %s is refused', (url) => {
    expect(checkUserUrl(url, policy)).toBe(notPublic);
  });

  test('opens no port of a database', () => {
    expect(checkUserUrl('http://10.1.0.1:6379/', policy)).toBe('The URL must not use port 6379.');
  });

  test('is nothing to those who were given no list', () => {
    expect(checkUserUrl('http://10.1.0.1/', publicOnly)).toBe(notPublic);
    expect(checkUserUrl('http://queue/', publicOnly)).toBe(notPublic);
  });
});

describe('a name', () => {
  const nowhere = 'The host name of the URL does not lead to a public address.';

  test('that is listed may lead to any private address, and to no other', async () => {
    expect(await led('http://hooks.corp.lan/a', '172.16.0.1')).toBe('172.16.0.1');
    expect(await led('http://HOOKS.corp.lan/a', '10.9.0.1', '1.1.1.1')).toBe('10.9.0.1 1.1.1.1');
    expect(await led('http://queue:3000/', '127.0.0.1')).toBe('127.0.0.1:3000');
    for (const shut of ['169.254.169.254', '0.0.0.0', '100.100.100.200', 'fd00:ec2::254']) {
      expect(await led('http://queue:3000/', '10.1.0.1', shut)).toBe(nowhere);
    }
  });

  test('that is not listed needs every one of its addresses to be allowed', async () => {
    expect(await led('http://hooks.example/', '10.1.0.1', '10.1.0.2')).toBe('10.1.0.1 10.1.0.2');
    expect(await led('http://hooks.example/', '10.1.0.1', '1.1.1.1')).toBe('10.1.0.1 1.1.1.1');
    expect(await led('http://hooks.example/', '10.1.0.1', '10.2.0.1')).toBe(nowhere);
    expect(await led('http://hooks.example/', '10.2.0.1')).toBe(nowhere);
  });

  test('that only means something inside is not even resolved unless it is listed', async () => {
    for (const name of ['corp.lan', 'a.hooks.corp.lan', 'queues', 'x.internal']) {
      expect(await led(`http://${name}/`, '10.1.0.1')).toBe(notPublic);
    }
  });
});

test.each(['169.254.169.254', 'metadata.google.internal', '0.0.0.0/0', 'fd00:ec2::254', '::/0'])(
  'an entry %s opens nothing',
  async (entry) => {
    const open = policyWith([entry], () => ownPort);
    for (const host of ['169.254.169.254', '10.0.0.1', '[fd00:ec2::254]', 'metadata']) {
      expect(checkUserUrl(`http://${host}/`, open)).toBe(notPublic);
    }
    const metadata = await guardTarget('http://metadata.google.internal/', open, async () => [
      '169.254.169.254',
    ]);
    expect(metadata).toBe(notPublic);
  },
);

test('our own port is refused at every address of this machine, and no other port', () => {
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const openable = own.filter(({ address }) => /^(127|10|192\.168)\.|^(::1$|fd)/.test(address));
  const addresses = ['127.0.0.1', '127.9.9.9', '::1', ...openable.map(({ address }) => address)];
  const open = policyWith(['127.0.0.0/8', '::1', ...addresses], () => ownPort);
  for (const address of addresses) {
    const host = address.includes(':') ? `[${address}]` : address;
    expect(checkUserUrl(`http://${host}:8080/admin/v1/tenants`, open)).toBe(notPublic);
    expect(checkUserUrl(`http://${host}:8081/`, open)).toBeInstanceOf(URL);
  }
});

test('a listed address is called over plain HTTP, but not what it redirects to', async () => {
  const peer = await listen(inside, text('taken'));
  const fetchGuarded = createGuardedFetch(policyWith([inside], () => ownPort));
  const call = { ...bounds, method: 'POST', body: '{"a":1}' } as const;
  expect(await fetchGuarded(`http://${inside}:${peer.port}/hook`, call)).toMatchObject({
    ok: true,
    status: 200,
  });
  expect(peer.requests).toEqual([expect.stringMatching(/^POST \/hook HTTP\/1\.1\r\n/)]);
  const away = await listen(inside, redirect('http://127.0.0.2/'));
  expect(await fetchGuarded(`http://${inside}:${away.port}/`, bounds)).toEqual({
    ok: false,
    reason: 'A redirect was refused: the address is not public.',
  });
});
