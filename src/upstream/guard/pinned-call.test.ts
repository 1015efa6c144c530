import { afterEach, describe, expect, test } from 'bun:test';
import { checkSignature } from '../../../tests/support/aws-signature.ts';
import {
  closePeers,
  inside,
  listen,
  outside,
  redirect,
  text,
} from '../../../tests/support/guarded-peer.ts';
import { providerNamed } from '../../../tests/support/offers.ts';
import type { Provider } from '../../config/config.ts';
import { DeadlineWatcher } from '../../core/deadlines.ts';
import { Secret } from '../../core/secret.ts';
import { connectionFailure, send } from '../provider-client.ts';
import { UpstreamCall } from '../upstream-call.ts';
import { publicOnly } from './address-policy.ts';
import type { ResolveHost } from './host-names.ts';
import { type CheckAddress, guardTarget, rejectionReasonBy } from './pinned-call.ts';

afterEach(closePeers);

const request = { path: '/chat/completions', body: '{"a":1}', headers: {} };
const never = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);

function provider(baseUrl: string): Provider {
  return providerNamed('vendor', { baseUrl, apiKey: new Secret('the-key') });
}

function checking(resolve: ResolveHost): CheckAddress {
  const policy = { ...publicOnly, isAllowedAddress: (ip: string) => ip === outside };
  return (url) => guardTarget(url, policy, resolve);
}

describe('A base URL that a tenant chose', () => {
  test('is called at its checked address with its own Host header', async () => {
    const peer = await listen(outside, text('ok'));
    const to = provider(`http://proxy.test:${peer.port}/base`);
    const response = await send(
      to,
      request,
      never,
      checking(async () => [outside]),
    );
    expect(await response.text()).toBe('ok');
    const [sent = ''] = peer.requests;
    expect(sent).toStartWith('POST /base/chat/completions HTTP/1.1\r\n');
    expect(sent.toLowerCase()).toContain(`\r\nhost: proxy.test:${peer.port}\r\n`);
    expect(sent.toLowerCase()).toContain('\r\nauthorization: bearer the-key\r\n');
    expect(sent).toEndWith('\r\n\r\n{"a":1}');
  });

  test('is signed with its own host name and the region in it', async () => {
    const peer = await listen(outside, text('ok'));
    const host = `bedrock-runtime.eu-west-3.amazonaws.com:${peer.port}`;
    const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
    const apiKey = new Secret(`AKIAIOSFODNN7EXAMPLE:${secret}`);
    const to: Provider = { ...provider(`http://${host}`), dialect: 'bedrock', apiKey };
    const converse = { path: '/model/a%3A0/converse', body: '{"a":1}' };
    const response = await send(
      { ...to, region: 'us-east-1' },
      converse,
      never,
      checking(async () => [outside]),
    );
    expect(response.status).toBe(200);
    const [head = '', body = ''] = (peer.requests[0] ?? '').split('\r\n\r\n');
    const [line = '', ...lines] = head.split('\r\n');
    const [method = '', path = ''] = line.split(' ');
    const headers = Object.fromEntries(
      lines.map((header) => [
        header.slice(0, header.indexOf(':')).toLowerCase(),
        header.slice(header.indexOf(':') + 1).trim(),
      ]),
    );
    expect(headers.host).toBe(host);
    const signed = { method, path, headers, raw: Buffer.from(body) };
    expect(checkSignature(signed, secret)).toMatchObject({ region: 'eu-west-3' });
  });

  test('is resolved once per call, so DNS rebinding cannot reach a private address', async () => {
    const canary = await listen(inside, text('secret'));
    const peer = await listen(outside, text('ok'), canary.port);
    const answers = [[outside], [inside]];
    const check = checking(async () => answers.shift() ?? []);
    const to = provider(`http://rebind.test:${peer.port}`);
    expect(await (await send(to, request, never, check)).text()).toBe('ok');
    await expect(send(to, request, never, check)).rejects.toThrow('public address');
    expect(canary.requests).toEqual([]);
  });

  test('is called without following redirects', async () => {
    const canary = await listen(inside, text('secret'));
    const peer = await listen(outside, redirect(`http://${inside}:${canary.port}/`, 307));
    const to = provider(`http://proxy.test:${peer.port}`);
    const response = await send(
      to,
      request,
      never,
      checking(async () => [outside]),
    );
    expect(response.status).toBe(307);
    expect(canary.requests).toEqual([]);
  });

  test('is named in the failure message when it is rejected', async () => {
    const canary = await listen(inside, text('secret'));
    const to = provider(`http://${inside}:${canary.port}`);
    const check = checking(async () => [outside]);
    const error = await send(to, request, never, check).catch((cause: unknown) => cause);
    expect(connectionFailure(error, false)).toMatchObject({
      kind: 'unreachable',
      message: 'The base URL of your credential was rejected: The address is not public.',
    });
    expect(canary.requests).toEqual([]);
  });

  test('fails when the call is canceled while its name is being resolved', async () => {
    const call = new UpstreamCall(new DeadlineWatcher(), new AbortController().signal);
    const to = provider('http://slow.test');
    const check = checking(() => new Promise(() => undefined));
    const sending = send(to, request, call, check);
    call.cancel();
    await expect(sending).rejects.toThrow('aborted');
    await expect(send(to, request, call, check)).rejects.toThrow('aborted');
  });
});

test('rejectionReasonBy returns why a URL is rejected, or null for a public URL', async () => {
  const rejectionReason = rejectionReasonBy(publicOnly);
  expect(await rejectionReason('http://2130706433/v1', 'acme')).toBe('The address is not public.');
  expect(await rejectionReason('https://1.1.1.1/v1', 'acme')).toBeNull();
});
