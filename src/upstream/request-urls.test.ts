import { afterEach, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import {
  type Answer,
  closePeers,
  guarded,
  inside,
  listen,
  outside,
  text,
} from '../../tests/support/guarded-peer.ts';
import { publicOnly } from './guard/address-policy.ts';
import { inlineImages, rejectPrivateUrls } from './request-urls.ts';

afterEach(closePeers);

const mebibyte = 1024 * 1024;
const png = 'Content-Type: image/png\r\n';
const connected = new AbortController().signal;

function inline(port: number, names: readonly string[], fetchGuarded = guarded()) {
  const images = names.map((name, index) => ({
    url: `http://a.test:${port}/${name}`,
    param: `images[${index}]`,
  }));
  return inlineImages(images, fetchGuarded, connected);
}

function image(bytes: number): Answer {
  const body = Buffer.alloc(bytes, 'x');
  return (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n${png}Content-Length: ${bytes}\r\n\r\n`);
    socket.end(body);
  };
}

test('rejectPrivateUrls checks up to 10,000 URLs and rejects a request with more', () => {
  const provided = (length: number, url: string) =>
    Array.from({ length }, (_, index) => ({ url, param: `file_urls[${index}]` }));
  rejectPrivateUrls(provided(10_000, 'https://a.example/'), publicOnly);
  const rejection = { symbol: 'invalid_request_error', param: 'file_urls[10000]' };
  const many = provided(10_001, 'http://127.0.0.1/');
  expect(() => rejectPrivateUrls(many, publicOnly)).toThrow(expect.objectContaining(rejection));
});

test('inlineImages returns a data: URL and downloads a repeated URL once', async () => {
  const peer = await listen(outside, text('abc', png));
  const found = await inline(peer.port, ['1.png', '1.png']);
  expect([...found]).toEqual([[`http://a.test:${peer.port}/1.png`, 'data:image/png;base64,YWJj']]);
  expect(peer.requests).toHaveLength(1);
});

test.each(['image/jpg', 'binary/octet-stream', 'image/png'])(
  'inlineImages detects a JPEG that its server declares as %s',
  async (declared) => {
    const bytes = Buffer.from('/9j/4AAQ', 'base64');
    const peer = await listen(outside, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: ${declared}\r\nContent-Length: 6\r\n\r\n`);
      socket.end(bytes);
    });
    const found = await inline(peer.port, ['1.jpg']);
    expect([...found.values()]).toEqual(['data:image/jpeg;base64,/9j/4AAQ']);
  },
);

test("inlineImages rejects a URL that isn't an image and names its field", async () => {
  const peer = await listen(outside, text('<html>', 'Content-Type: text/html\r\n'));
  expect(await failureOf(inline(peer.port, ['page']))).toMatchObject({
    status: 400,
    param: 'images[0]',
    message: "The URL isn't a PNG, JPEG, GIF, or WebP image. It returned text/html.",
  });
});

test('inlineImages does not call a private address', async () => {
  const peer = await listen(inside, text('abc', png));
  const failure = await failureOf(
    inline(
      peer.port,
      ['1.png'],
      guarded(async () => [inside]),
    ),
  );
  expect(failure).toMatchObject({ status: 400, param: 'images[0]' });
  expect(String(failure)).toContain("doesn't resolve to a public address");
  expect(peer.requests).toEqual([]);
});

test('inlineImages accepts 32 MiB of images per request and rejects more', async () => {
  const peer = await listen(outside, image(16 * mebibyte));
  const found = await inline(peer.port, ['1.png', '2.png']);
  expect(found.size).toBe(2);
  const longer = await listen(outside, image(16 * mebibyte + 1));
  const failure = await failureOf(inline(longer.port, ['1.png', '2.png']));
  expect(failure).toMatchObject({ status: 400, param: expect.stringMatching(/^images\[[01]\]$/) });
  expect(String(failure)).toContain(
    "The total size of this request's downloads exceeds the limit.",
  );
});

test('inlineImages aborts the other downloads when one fails', async () => {
  const silent = await listen(outside, () => undefined);
  const broken = await listen(outside, text('', 'Content-Type: text/plain\r\n'));
  const images = [silent.port, broken.port].map((port, index) => ({
    url: `http://a.test:${port}/`,
    param: `images[${index}]`,
  }));
  const failure = await failureOf(inlineImages(images, guarded(), connected));
  expect(failure).toMatchObject({ param: 'images[1]' });
  await silent.closed;
});
