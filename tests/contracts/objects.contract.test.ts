import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash, createHmac } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../src/core/secret.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import type { ObjectStorage } from '../../src/jobs/objects.ts';
import { ObjectLinks } from '../../src/jobs/objects.ts';
import { openObjects } from '../../src/store/objects/open.ts';
import { S3Objects } from '../../src/store/objects/s3.ts';
import { type S3Server, startS3 } from '../support/s3.ts';
import { failureOf } from './failure-of.ts';

const links = new ObjectLinks(new Secret('a secret of the operator, long enough'));
const nobody = { accessKeyId: null, secretAccessKey: null, sessionToken: null, region: null };

interface Opened {
  readonly store: ObjectStorage;
  close(): Promise<void>;
}

const drivers: readonly { name: string; open: () => Promise<Opened> }[] = [
  {
    name: 'files',
    async open() {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
      return {
        store: openObjects(`file:${folder}/objects`, nobody, links),
        close: async () => rmSync(folder, { recursive: true }),
      };
    },
  },
  {
    name: 'S3',
    async open() {
      const server = await startS3();
      return { store: s3StoreOf(server), close: () => server.stop() };
    },
  },
];

function s3StoreOf(
  { endpoint, bucket, accessKey, secretKey }: S3Server,
  more: Readonly<Record<string, string>> = {},
): ObjectStorage {
  const address = `s3://${bucket}/some/prefix?${new URLSearchParams({ endpoint, ...more })}`;
  const credentials = {
    accessKeyId: new Secret(accessKey),
    secretAccessKey: new Secret(secretKey),
    sessionToken: null,
    region: 'us-east-1',
  };
  return openObjects(address, credentials, links);
}

async function* inChunks(bytes: Uint8Array, chunkBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.slice(at, at + chunkBytes);
}

const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

describe.each([...drivers])('objects in $name', ({ open }) => {
  let opened: Opened;
  let store: ObjectStorage;

  beforeAll(async () => {
    opened = await open();
    store = opened.store;
  }, 120_000);

  afterAll(() => opened.close());

  const read = async (key: string) => {
    const object = await store.open(key);
    if (!object) throw new Error(`There is no object ${key}.`);
    return { bytes: object.bytes, content: Buffer.from(await object.body.arrayBuffer()) };
  };

  // The last one is more than three parts of an S3 upload.
  test.each([0, 1, 5_000, 16 * 1024 * 1024 + 7])(
    'come back byte by byte: %d bytes',
    async (size) => {
      const bytes = new Uint8Array(size);
      for (let at = 0; at < size; at += 65_536) {
        crypto.getRandomValues(bytes.subarray(at, Math.min(size, at + 65_536)));
      }
      const key = newObjectKey('wav');
      expect(await store.put(key, inChunks(bytes, 100_003))).toBe(size);
      const found = await read(key);
      expect(found.bytes).toBe(size);
      expect(hashOf(found.content)).toBe(hashOf(bytes));
    },
    120_000,
  );

  test('can be read in slices and as a stream', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('0123'), Buffer.from('456789')]);
    const object = await store.open(key);
    expect(await object?.body.slice(3, 6).text()).toBe('345');
    const chunks = await Array.fromAsync(object?.body.stream() ?? []);
    expect(Buffer.concat(chunks).toString()).toBe('0123456789');
  });

  test('are not there before they were put, and not after they were deleted', async () => {
    const key = newObjectKey('txt');
    expect(await store.open(key)).toBeUndefined();
    await store.put(key, [Buffer.from('here')]);
    expect((await read(key)).content.toString()).toBe('here');
    await store.delete(key);
    expect(await store.open(key)).toBeUndefined();
    await store.delete(key);
  });

  test.each([0, 1, 12])(
    'are whole or not at all: a source that fails after %d MiB',
    async (chunks) => {
      const key = newObjectKey('wav');
      async function* failing(): AsyncGenerator<Uint8Array> {
        for (let sent = 0; sent < chunks; sent += 1) yield new Uint8Array(1024 * 1024);
        throw new Error('The client left.');
      }
      expect((await failureOf(store.put(key, failing()))).message).toBe('The client left.');
      expect(await store.open(key)).toBeUndefined();
    },
    120_000,
  );
});

describe('objects in files', () => {
  test('are closed to other users, and leave nothing of a broken off upload', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
    const store = openObjects(`file:${folder}/objects`, nobody, links);
    const key = newObjectKey('txt');
    await store.put(key, [Buffer.from('x')]);
    expect(statSync(join(folder, 'objects')).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'objects', key)).mode & 0o777).toBe(0o600);
    const failing = (function* () {
      yield Buffer.from('half');
      throw new Error('gone');
    })();
    await failureOf(store.put(newObjectKey('txt'), failing));
    expect(readdirSync(join(folder, 'objects'))).toEqual([key]);
    // A process that was killed in the middle leaves a draft, which goes with its key.
    const lost = newObjectKey('txt');
    writeFileSync(join(folder, 'objects', `${lost}.part`), 'half');
    expect(await store.open(lost)).toBeUndefined();
    await store.delete(lost);
    expect(readdirSync(join(folder, 'objects'))).toEqual([key]);
    rmSync(folder, { recursive: true });
  });

  test.each(['../escape.txt', '/etc/passwd', 'a/b.txt', '.hidden', 'a\0.txt', 'A.txt'])(
    'never have the key %p',
    async (key) => {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
      const store = openObjects(`file:${folder}/objects`, nobody, links);
      const failure = await failureOf(Promise.try(() => store.put(key, [])));
      expect(failure.message).toBe('The object key is malformed.');
      expect(readdirSync(join(folder, 'objects'))).toEqual([]);
      rmSync(folder, { recursive: true });
    },
  );

  test('that cannot be kept say so at the start', () => {
    const open = () => openObjects('file:/proc/nowhere/objects', nobody, links);
    expect(open).toThrow(
      /^The objects folder \/proc\/nowhere\/objects can't be created \(\w+\)\.$/,
    );
  });
});

describe('links to objects in S3', () => {
  let server: S3Server;
  let store: ObjectStorage;
  const wish = (seconds: number) => {
    const now = Date.now();
    return { now, expiresAt: now + seconds * 1000, baseUrl: 'http://unused.test' };
  };

  beforeAll(async () => {
    server = await startS3();
    store = s3StoreOf(server);
  }, 120_000);

  afterAll(() => server.stop());

  test('open the object as an attachment of the right type, without any credential', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('sound')]);
    const response = await fetch(store.link(key, wish(60)));
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('sound');
    expect(response.headers.get('content-type')).toBe('audio/mpeg');
    expect(response.headers.get('content-disposition')).toBe('attachment');
  });

  test('are not made for nothing: a failed upload leaves no parts to pay for', async () => {
    async function* failing(): AsyncGenerator<Uint8Array> {
      for (let sent = 0; sent < 12; sent += 1) yield new Uint8Array(1024 * 1024);
      expect(server.unfinished().length).toBe(1);
      throw new Error('The client left.');
    }
    const failure = await failureOf(store.put(newObjectKey('wav'), failing()));
    expect(failure.message).toBe('The client left.');
    expect(server.unfinished()).toEqual([]);
  }, 120_000);

  test('end when they say, and no client can make that later', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('sound')]);
    const link = store.link(key, wish(1));
    await Bun.sleep(2_100);
    expect(await refusalOf(link)).toBe('403 AccessDenied');
    const later = link.replace('X-Amz-Expires=1&', 'X-Amz-Expires=3600&');
    expect(later).not.toBe(link);
    expect(await refusalOf(later)).toBe('403 SignatureDoesNotMatch');
  });

  test('are refused when any character of them is another', async () => {
    const [key, other] = [newObjectKey('mp3'), newObjectKey('mp3')];
    await store.put(key, [Buffer.from('sound')]);
    await store.put(other, [Buffer.from('somebody else’s')]);
    const link = store.link(key, wish(600));
    const refusals = new Map<string, string>();
    for (let at = server.endpoint.length + 1; at < link.length; at += 1) {
      const changed = `${link.slice(0, at)}${link[at] === '1' ? '2' : '1'}${link.slice(at + 1)}`;
      refusals.set(changed, await refusalOf(changed));
    }
    expect(refusals.size).toBeGreaterThan(300);
    const codes = new Set(refusals.values());
    expect([...codes].filter((code) => !/^40[03] \w+$/.test(code))).toEqual([]);
    const changes = [
      link.replace(key, other),
      `${link}&a=1`,
      `${link}0`,
      link.slice(0, -1),
      link.slice(0, link.indexOf('?')),
      link.replace(/X-Amz-Signature=\w+/, (signature) => signature.toUpperCase()),
      ...[...new URL(link).searchParams.keys()].map((name) => without(link, name)),
    ];
    for (const changed of changes) {
      expect([changed, await refusalOf(changed)]).toEqual([
        changed,
        expect.stringMatching(/^40[03] /),
      ]);
    }
    expect(await (await fetch(link)).text()).toBe('sound');
  }, 120_000);

  test('open nothing to any other method', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('sound')]);
    const link = store.link(key, wish(600));
    for (const method of ['PUT', 'POST', 'DELETE']) {
      const body = method === 'DELETE' ? null : 'noise';
      expect([method, (await fetch(link, { method, body })).status]).toEqual([method, 403]);
    }
    expect(await (await fetch(link)).text()).toBe('sound');
  });

  test('of somebody with another secret are refused, and so is what they would store', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('sound')]);
    const forger = s3StoreOf({ ...server, secretKey: 'guessed' });
    expect(await refusalOf(forger.link(key, wish(600)))).toBe('403 SignatureDoesNotMatch');
    await failureOf(forger.put(newObjectKey('mp3'), [Buffer.from('noise')]));
    await failureOf(forger.open(key));
    await failureOf(forger.delete(key));
    expect(await (await fetch(store.link(key, wish(600)))).text()).toBe('sound');
  });

  test('lead clients by the name under which they reach the storage', async () => {
    const key = newObjectKey('mp3');
    const seen = new URL(server.endpoint);
    seen.hostname = 'localhost';
    const public_endpoint = seen.origin;
    const named = s3StoreOf(server, { public_endpoint });
    await named.put(key, [Buffer.from('sound')]);
    const link = named.link(key, wish(600));
    expect(link).toStartWith(`${public_endpoint}/${server.bucket}/some/prefix/${key}?`);
    expect(await (await fetch(link)).text()).toBe('sound');
    // A link holds for the host that it was signed for, and for no other.
    const moved = store.link(key, wish(600)).replace(server.endpoint, public_endpoint);
    expect(await refusalOf(moved)).toBe('403 SignatureDoesNotMatch');
    await named.delete(key);
    expect(await store.open(key)).toBeUndefined();
  });

  /** Status and error code of an answer that must not be the object. */
  async function refusalOf(link: string): Promise<string> {
    const response = await fetch(link);
    const text = await response.text();
    return `${response.status} ${/<Code>(\w+)<\/Code>/.exec(text)?.[1] ?? text}`;
  }

  function without(link: string, name: string): string {
    const [path, query = ''] = link.split('?');
    const kept = query.split('&').filter((part) => !part.startsWith(`${name}=`));
    return `${path}?${kept.join('&')}`;
  }

  // The server has its own idea of a signature; this one is worked out as AWS describes it.
  test('are signed for this object, this method and this time', () => {
    const key = newObjectKey('mp3');
    const url = new URL(store.link(key, wish(3_600)));
    expect(url.pathname).toBe(`/${server.bucket}/some/prefix/${key}`);
    const query = new Map(url.searchParams);
    expect(query.get('X-Amz-Expires')).toBe('3600');
    const time = query.get('X-Amz-Date') ?? '';
    const scope = `${time.slice(0, 8)}/us-east-1/s3/aws4_request`;
    expect(query.get('X-Amz-Credential')).toBe(`${server.accessKey}/${scope}`);
    const canonicalQuery = [...query]
      .filter(([name]) => name !== 'X-Amz-Signature')
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
      .sort()
      .join('&');
    const request = ['GET', url.pathname, canonicalQuery, `host:${url.host}`, '', 'host'];
    const canonical = [...request, 'UNSIGNED-PAYLOAD'].join('\n');
    const toSign = ['AWS4-HMAC-SHA256', time, scope, hashOf(Buffer.from(canonical))].join('\n');
    const mac = (secret: string | Buffer, text: string) =>
      createHmac('sha256', secret).update(text).digest();
    const signingKey = scope
      .split('/')
      .reduce<string | Buffer>((secret, part) => mac(secret, part), `AWS4${server.secretKey}`);
    expect(query.get('X-Amz-Signature')).toBe(mac(signingKey, toSign).toString('hex'));
  });
});

async function* brokenOff() {
  yield new Uint8Array(9);
  throw new Error('gone');
}

test('an S3 that takes everything and answers nothing is not waited for', async () => {
  const never = new Promise<Response>(() => {});
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 0, fetch: () => never });
  try {
    const [endpoint, region] = [String(server.url), 'us-east-1'];
    const place = { bucket: 'b', prefix: '', endpoint, publicEndpoint: null, region };
    const secret = new Secret('S3RVER');
    const credentials = { accessKeyId: secret, secretAccessKey: secret, sessionToken: null };
    const store = new S3Objects(place, credentials, 100);
    const key = newObjectKey('txt');
    const silence = "The object storage didn't respond within 100 ms.";
    expect(await failureOf(store.put(key, [new Uint8Array(9)]))).toHaveProperty('message', silence);
    expect(await failureOf(store.put(key, brokenOff()))).toHaveProperty('message', 'gone');
    expect(await failureOf(store.open(key))).toHaveProperty('message', silence);
    expect(await failureOf(store.delete(key))).toHaveProperty('message', silence);
  } finally {
    await server.stop(true);
  }
});

function storeAt(endpoint: string): S3Objects {
  const place = { bucket: 'b', prefix: '', endpoint, publicEndpoint: null, region: 'us-east-1' };
  const secret = new Secret('S3RVER');
  return new S3Objects(place, {
    accessKeyId: secret,
    secretAccessKey: secret,
    sessionToken: null,
  });
}

test.each([403, 503])('an S3 that answers %d without a word was reached', async (status) => {
  const fetch = () => new Response(null, { status });
  await using server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch });
  const { message } = await failureOf(storeAt(String(server.url)).open(newObjectKey('txt')));
  expect(message).toMatch(/^The object storage answered with an error [^.]+ policy [^.]+\.$/);
});

test('an S3 that is not there is named as such', async () => {
  const store = storeAt('http://127.0.0.1:1');
  const key = newObjectKey('txt');
  const message = 'The object storage is unreachable (ConnectionRefused).';
  expect(await failureOf(store.put(key, [new Uint8Array(9)]))).toHaveProperty('message', message);
  expect(await failureOf(store.open(key))).toHaveProperty('message', message);
  expect(await failureOf(store.delete(key))).toHaveProperty('message', message);
});

describe('an address of objects', () => {
  const notAnAddress =
    'The objects address must be s3://bucket/prefix?endpoint=…&public_endpoint=…&region=….';

  test.each([
    ['ftp://a', 'The objects address must start with file: or s3://.'],
    ['s3://', notAnAddress],
    ['s3://b?endpoint=nonsense', notAnAddress],
    ['s3://b?public_endpoint=files.example.com', notAnAddress],
    ['s3://b?regoin=eu', notAnAddress],
    ['s3://key:secret@b', notAnAddress],
    [
      's3://b/p',
      'Objects on S3 need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
    ],
  ])('%s is refused in one sentence', (address, message) => {
    expect(() => openObjects(address, nobody, links)).toThrow(message);
  });
});
