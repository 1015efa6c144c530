import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { Secret } from '../../src/core/secret.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import { objectRoutes } from '../../src/http/jobs/object-routes.ts';
import { Router } from '../../src/http/router.ts';
import { Exchange } from '../../src/http/routes.ts';
import { ObjectLinks } from '../../src/jobs/object-storage.ts';
import { JobServer } from '../support/job-server.ts';

let server: JobServer;
let owner: Caller;
let jobId: string;

beforeAll(async () => {
  server = await JobServer.start();
  owner = await server.harness.newCaller();
  jobId = await server.harness.speech(owner, 'Long ago.');
}, 120_000);

afterAll(() => server.stop());

const content = '0123456789';

async function storeObject(extension = 'mp3'): Promise<string> {
  const key = newObjectKey(extension);
  const { store, storage, now } = server.harness;
  await store.jobs.objects.register(key, jobId, now);
  await storage.put(key, [Buffer.from(content)]);
  return key;
}

function link(key: string, seconds = 3_600): string {
  const { now } = server.harness;
  return server.harness.storage.link(key, {
    now,
    expiresAt: now + seconds * 1000,
    baseUrl: server.url,
  });
}

describe('GET /v1/objects/:key', () => {
  test('sends the file as an attachment, so that browsers do not execute it', async () => {
    const response = await fetch(link(await storeObject()));
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(content);
    const header = (name: string) => response.headers.get(name);
    expect(header('content-type')).toBe('audio/mpeg');
    expect(header('content-length')).toBe('10');
    expect(header('content-disposition')).toMatch(/^attachment; filename="[0-9a-z]{26}\.mp3"$/);
    expect(header('x-content-type-options')).toBe('nosniff');
    expect(header('content-security-policy')).toBe("default-src 'none'; sandbox");
    expect(header('cache-control')).toBe('private, no-store');
  });

  test('sends no body in response to HEAD', async () => {
    const response = await fetch(link(await storeObject()), { method: 'HEAD' });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-length')).toBe('10');
    expect(await response.text()).toBe('');
  });

  test.each<[string, number, string, string | null]>([
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=8-100', 206, '89', 'bytes 8-9/10'],
    ['bytes=-100', 206, content, 'bytes 0-9/10'],
    ['bytes=10-', 416, '', 'bytes */10'],
    ['bytes=5-2', 416, '', 'bytes */10'],
    ['bytes=0-1,4-5', 200, content, null],
    ['lines=1-2', 200, content, null],
    ['bytes=-', 200, content, null],
  ])('serves the range %s', async (range, status, text, contentRange) => {
    const response = await fetch(link(await storeObject()), { headers: { range } });
    expect(response.status).toBe(status);
    expect(await response.text()).toBe(text);
    expect(response.headers.get('content-range')).toBe(contentRange);
  });

  test('ignores the range in a request with If-Range, because objects have no ETag', async () => {
    const headers = { range: 'bytes=0-3', 'if-range': '"another"' };
    const response = await fetch(link(await storeObject()), { headers });
    expect([response.status, await response.text()]).toEqual([200, content]);
  });

  test('rejects a link if any of its characters is changed', async () => {
    const valid = link(await storeObject());
    const start = valid.indexOf('/objects/') + '/objects/'.length;
    const statuses = new Set<number>();
    for (let index = start; index < valid.length; index += 1) {
      const other = valid[index] === '1' ? '2' : '1';
      const response = await fetch(valid.slice(0, index) + other + valid.slice(index + 1));
      statuses.add(response.status);
    }
    expect([...statuses]).toEqual([403]);
  });

  test('rejects a link with added, missing, or reordered parts', async () => {
    const [key, other] = [await storeObject(), await storeObject('wav')];
    const valid = link(key);
    const { searchParams } = new URL(valid);
    const [expires, signature] = [searchParams.get('expires'), searchParams.get('signature')];
    const path = `${server.url}/v1/objects/${key}`;
    for (const changed of [
      `${valid}0`,
      `${valid}&a=1`,
      `${valid}&expires=${expires}`,
      valid.slice(0, -1),
      path,
      `${path}?expires=${expires}`,
      `${path}?signature=${signature}`,
      `${path}?signature=${signature}&expires=${expires}`,
      `${path}?expires=${Number(expires) + 1}&signature=${signature}`,
      `${path}?expires=0${expires}&signature=${signature}`,
      `${path}?expires=${expires}&signature=${signature?.toUpperCase()}`,
      `${path}?expires=${expires}&signature=`,
      valid.replace(key, other),
      valid.replace(key, newObjectKey('mp3')),
    ]) {
      const response = await fetch(changed);
      expect([changed, response.status]).toEqual([changed, 403]);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      expect((await fetch(valid, { method })).status).toBe(405);
    }
    expect((await fetch(valid)).status).toBe(200);
  });

  test('rejects a link signed with another secret', async () => {
    const key = await storeObject();
    const { now } = server.harness;
    const foreign = new ObjectLinks(new Secret('the secret of another operator'));
    const options = { now, expiresAt: now + 3_600_000, baseUrl: server.url };
    expect((await fetch(foreign.make(key, options))).status).toBe(403);
  });

  test('accepts links signed with the previous secret during a rotation', () => {
    const [now, key] = [1_800_000_000_000, '0123456789abcdefghijklmnop.mp3'];
    const options = { now, expiresAt: now + 3_600_000, baseUrl: '' };
    const previous = new Secret('a secret of the operator, long enough');
    const current = new Secret('a new secret of the operator, long enough');
    const both = new ObjectLinks(current, previous);
    const isValid = (by: ObjectLinks, link: string) =>
      by.isValid(key, link.slice(link.indexOf('?') + 1), now);
    const previousLink = new ObjectLinks(previous).make(key, options);
    expect(isValid(both, previousLink)).toBe(true);
    expect(isValid(both, both.make(key, options))).toBe(true);
    // New links are signed with the current secret.
    expect(isValid(new ObjectLinks(current), both.make(key, options))).toBe(true);
    expect(isValid(new ObjectLinks(current), previousLink)).toBe(false);
  });

  test('accepts a link until the exact second at which it expires', async () => {
    const url = link(await storeObject(), 60);
    server.harness.now += 59_999;
    expect((await fetch(url)).status).toBe(200);
    server.harness.now += 1;
    expect((await fetch(url)).status).toBe(403);
    server.harness.now -= 60_000;
  });

  test('returns 404 for a deleted object', async () => {
    const key = await storeObject();
    const url = link(key);
    await server.harness.storage.delete(key);
    const response = await fetch(url);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: {
        message:
          'The file that this link points to was deleted or moved, or its account is disabled.',
        code: 'invalid_request_error',
      },
    });
  });

  test('stops to serve links while their tenant is disabled', async () => {
    const url = link(await storeObject());
    const { directory } = server.harness.store;
    const statusWhile = async (disabled: boolean) => {
      await directory.changeTenant(owner.tenantId, { disabled }, Date.now());
      return (await fetch(url)).status;
    };
    expect([await statusWhile(true), await statusWhile(false)]).toEqual([404, 200]);
  });

  test('does not reveal whether a key exists', async () => {
    const existing = await storeObject();
    const bodies = new Set<string>();
    for (const key of [
      existing,
      newObjectKey('mp3'),
      'x',
      '..%2f..%2fsecret.key',
      '%00',
      'a.part',
    ]) {
      const query = `expires=9999999999&signature=${'0'.repeat(64)}`;
      const response = await fetch(`${server.url}/v1/objects/${key}?${query}`);
      expect(response.status).toBe(403);
      bodies.add(await response.text());
    }
    expect(bodies.size).toBe(1);
  });
});

test('Exchange reports the length of the file that it sends', async () => {
  const body = new Blob([content]);
  const open = async () => ({ bytes: content.length, body });
  const router = new Router(
    objectRoutes({ open, isAvailable: async () => true, isValidLink: () => true }),
  );
  const exchange = new Exchange(new Request(link(await storeObject())));
  const match = router.match('GET', exchange.path);
  if (match?.route.access !== 'public') throw new Error('The route must be public.');
  exchange.setMatch(match);
  await match.route.handle(exchange);
  expect(exchange.responseLength).toBe(10);
});
