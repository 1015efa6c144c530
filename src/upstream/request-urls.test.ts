import { afterEach, expect, test } from 'bun:test';
import type { Socket } from 'node:net';
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
import { within } from '../../tests/support/wait-until.ts';
import { GatewayError } from '../core/errors.ts';
import type { UrlInput } from '../core/request-info.ts';
import { publicOnly } from './guard/address-policy.ts';
import { type DownloadContext, inlineImages, rejectPrivateUrls } from './request-urls.ts';

afterEach(closePeers);

const mebibyte = 1024 * 1024;
const png = 'Content-Type: image/png\r\n';

/** Downloads images without a limit on memory. */
function download(images: readonly UrlInput[], more: Partial<DownloadContext> = {}) {
  return inlineImages(images, {
    signal: new AbortController().signal,
    fetchGuarded: (url, call) => guarded()(url, { ...call, tenantId: 'acme' }),
    reserveMemory: () => undefined,
    ...more,
  });
}

function inline(port: number, names: readonly string[], more: Partial<DownloadContext> = {}) {
  const images = names.map((name, index) => ({
    url: `http://a.test:${port}/${name}`,
    param: `images[${index}]`,
  }));
  return download(images, more);
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
    inline(peer.port, ['1.png'], {
      fetchGuarded: (url, call) =>
        guarded(async () => [inside])(url, { ...call, tenantId: 'acme' }),
    }),
  );
  expect(failure).toMatchObject({ status: 400, param: 'images[0]' });
  expect(String(failure)).toContain("doesn't resolve to a public address");
  expect(peer.requests).toEqual([]);
});

test('inlineImages accepts 30 MiB of images per request and rejects more', async () => {
  const peer = await listen(outside, image(15 * mebibyte));
  const found = await inline(peer.port, ['1.png', '2.png']);
  expect(found.size).toBe(2);
  const longer = await listen(outside, image(15 * mebibyte + 1));
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
  const failure = await failureOf(download(images));
  expect(failure).toMatchObject({ param: 'images[1]' });
  await within(silent.closed, 'the connection to close');
});

test('inlineImages aborts the downloads when the client disconnects', async () => {
  const client = new AbortController();
  const peer = await listen(outside, () => client.abort());
  const failure = await failureOf(inline(peer.port, ['1.png'], { signal: client.signal }));
  expect(String(failure)).toContain('The request was canceled.');
  await peer.closed;
});

test('inlineImages reserves the base64 length of an image before it is read', async () => {
  const peer = await listen(outside, (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n${png}Content-Length: 3000000\r\n\r\n`);
  });
  const client = new AbortController();
  const reservations: number[] = [];
  const reserveMemory = (bytes: number) => {
    reservations.push(bytes);
    client.abort();
  };
  await failureOf(inline(peer.port, ['1.png'], { signal: client.signal, reserveMemory }));
  expect(reservations).toEqual([4_000_000]);
});

test('inlineImages reserves memory as an image without Content-Length arrives', async () => {
  const chunks = ['defghi', 'jkl'];
  const connected = Promise.withResolvers<Socket>();
  const peer = await listen(outside, (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n${png}\r\nabc`);
    connected.resolve(socket);
  });
  const reservations: number[] = [];
  const reserveMemory = async (bytes: number) => {
    reservations.push(bytes);
    const socket = await within(connected.promise, 'the connection');
    const chunk = chunks.shift();
    if (chunk) socket.write(chunk);
    else socket.end();
  };
  const found = await inline(peer.port, ['1.png'], { reserveMemory });
  expect(reservations).toEqual([4, 8, 4]);
  expect([...found.values()]).toEqual(['data:image/png;base64,YWJjZGVmZ2hpamts']);
});

test('inlineImages reads no image that there is no memory for', async () => {
  const peer = await listen(outside, image(3 * mebibyte));
  const full = new GatewayError('service_unavailable', 'Full.');
  const reserveMemory = () => {
    throw full;
  };
  expect(await failureOf(inline(peer.port, ['1.png'], { reserveMemory }))).toBe(full);
  await peer.closed;
});
