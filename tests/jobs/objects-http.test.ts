import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { Secret } from '../../src/core/secret.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import { objectRoutes } from '../../src/http/jobs/objects.ts';
import { Router } from '../../src/http/router.ts';
import { Exchange } from '../../src/http/routes.ts';
import { ObjectLinks } from '../../src/jobs/objects.ts';
import { JobServer } from '../support/job-server.ts';

let server: JobServer;

beforeAll(async () => {
  server = await JobServer.start();
}, 120_000);

afterAll(() => server.stop());

const content = '0123456789';

async function stored(extension = 'mp3'): Promise<string> {
  const key = newObjectKey(extension);
  await server.bench.storage.put(key, [Buffer.from(content)]);
  return key;
}

function link(key: string, seconds = 3_600): string {
  const { now } = server.bench;
  return server.bench.storage.link(key, {
    now,
    expiresAt: now + seconds * 1000,
    baseUrl: server.url,
  });
}

describe('a link to an object', () => {
  test('gives the file as an attachment that no browser runs', async () => {
    const response = await fetch(link(await stored()));
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

  test('works for HEAD, without the bytes', async () => {
    const response = await fetch(link(await stored()), { method: 'HEAD' });
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
    const response = await fetch(link(await stored()), { headers: { range } });
    expect(response.status).toBe(status);
    expect(await response.text()).toBe(text);
    expect(response.headers.get('content-range')).toBe(contentRange);
  });

  test('serves the whole to who wants a range of a version: there are none', async () => {
    const headers = { range: 'bytes=0-3', 'if-range': '"another"' };
    const response = await fetch(link(await stored()), { headers });
    expect([response.status, await response.text()]).toEqual([200, content]);
  });

  test('is refused when any character of it is another', async () => {
    const whole = link(await stored());
    const start = whole.indexOf('/objects/') + '/objects/'.length;
    const statuses = new Set<number>();
    for (let at = start; at < whole.length; at += 1) {
      const other = whole[at] === '1' ? '2' : '1';
      const response = await fetch(whole.slice(0, at) + other + whole.slice(at + 1));
      statuses.add(response.status);
    }
    expect([...statuses]).toEqual([403]);
  });

  test('is refused when something is added, left out or moved', async () => {
    const [key, other] = [await stored(), await stored('wav')];
    const whole = link(key);
    const { searchParams } = new URL(whole);
    const [expires, signature] = [searchParams.get('expires'), searchParams.get('signature')];
    const path = `${server.url}/v1/objects/${key}`;
    for (const changed of [
      `${whole}0`,
      `${whole}&a=1`,
      `${whole}&expires=${expires}`,
      whole.slice(0, -1),
      path,
      `${path}?expires=${expires}`,
      `${path}?signature=${signature}`,
      `${path}?signature=${signature}&expires=${expires}`,
      `${path}?expires=${Number(expires) + 1}&signature=${signature}`,
      `${path}?expires=0${expires}&signature=${signature}`,
      `${path}?expires=${expires}&signature=${signature?.toUpperCase()}`,
      `${path}?expires=${expires}&signature=`,
      whole.replace(key, other),
      whole.replace(key, newObjectKey('mp3')),
    ]) {
      const response = await fetch(changed);
      expect([changed, response.status]).toEqual([changed, 403]);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      expect((await fetch(whole, { method })).status).toBe(405);
    }
    expect((await fetch(whole)).status).toBe(200);
  });

  test('of another operator’s making is refused', async () => {
    const key = await stored();
    const { now } = server.bench;
    const foreign = new ObjectLinks(new Secret('the secret of another operator'));
    const wish = { now, expiresAt: now + 3_600_000, baseUrl: server.url };
    expect((await fetch(foreign.make(key, wish))).status).toBe(403);
  });

  test('of the former secret key is good while it is known, and none is made with it', () => {
    const [now, key] = [1_800_000_000_000, '0123456789abcdefghijklmnop.mp3'];
    const wish = { now, expiresAt: now + 3_600_000, baseUrl: '' };
    const former = new Secret('a secret of the operator, long enough');
    const current = new Secret('a new secret of the operator, long enough');
    const both = new ObjectLinks(current, former);
    const isGood = (by: ObjectLinks, link: string) =>
      by.isValid(key, link.slice(link.indexOf('?') + 1), now);
    expect(isGood(both, new ObjectLinks(former).make(key, wish))).toBe(true);
    expect(isGood(both, both.make(key, wish))).toBe(true);
    expect(isGood(new ObjectLinks(current), both.make(key, wish))).toBe(true);
    expect(isGood(new ObjectLinks(current), new ObjectLinks(former).make(key, wish))).toBe(false);
  });

  test('ends with its second, not before and not after', async () => {
    const whole = link(await stored(), 60);
    server.bench.now += 59_999;
    expect((await fetch(whole)).status).toBe(200);
    server.bench.now += 1;
    expect((await fetch(whole)).status).toBe(403);
    server.bench.now -= 60_000;
  });

  test('leads to 404 once the object is deleted', async () => {
    const key = await stored();
    const whole = link(key);
    await server.bench.storage.delete(key);
    const response = await fetch(whole);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: { message: 'What this link led to was deleted, or lies elsewhere.', code: 404 },
    });
  });

  test('cannot be guessed: every key gets the same answer, there or not', async () => {
    const there = await stored();
    const bodies = new Set<string>();
    for (const key of [there, newObjectKey('mp3'), 'x', '..%2f..%2fsecret.key', '%00', 'a.part']) {
      const query = `expires=9999999999&signature=${'0'.repeat(64)}`;
      const response = await fetch(`${server.url}/v1/objects/${key}?${query}`);
      expect(response.status).toBe(403);
      bodies.add(await response.text());
    }
    expect(bodies.size).toBe(1);
  });
});

test('a connection knows how much of a file its reader has to take', async () => {
  const body = new Blob([content]);
  const open = async () => ({ bytes: content.length, body });
  const router = new Router(objectRoutes({ open, isValidLink: () => true }));
  const exchange = new Exchange(new Request(link(await stored())));
  const match = router.match('GET', exchange.path);
  if (match?.route.access !== 'public') throw new Error('Objects need no key.');
  exchange.setMatch(match);
  await match.route.handle(exchange);
  expect(exchange.responseLength).toBe(10);
});
