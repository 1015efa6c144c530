import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash, createHmac } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { diskFreeBytesMin } from '../../src/core/bounds.ts';
import { Secret } from '../../src/core/secret.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import type { ObjectStorage } from '../../src/jobs/object-storage.ts';
import { ObjectLinks } from '../../src/jobs/object-storage.ts';
import { FileObjects } from '../../src/store/objects/files.ts';
import { openObjects } from '../../src/store/objects/open.ts';
import { S3Objects } from '../../src/store/objects/s3.ts';
import { type S3Server, startS3 } from '../support/s3.ts';
import { failureOf } from './failure-of.ts';

const links = new ObjectLinks(new Secret('a-secret-of-the-operator-0123456789'));
const noCredentials = {
  accessKeyId: null,
  secretAccessKey: null,
  sessionToken: null,
  workload: null,
  region: null,
};

interface OpenedAnswer {
  readonly store: ObjectStorage;
  close(): Promise<void>;
}

const drivers: readonly { name: string; open: () => Promise<OpenedAnswer> }[] = [
  {
    name: 'files',
    async open() {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
      return {
        store: openObjects(`file:${folder}/objects`, noCredentials, links),
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
    workload: null,
    region: 'us-east-1',
  };
  return openObjects(address, credentials, links);
}

async function* inChunks(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < bytes.length; offset += size) {
    yield bytes.slice(offset, offset + size);
  }
}

const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

describe.each([...drivers])('ObjectStorage on $name', ({ open }) => {
  let opened: OpenedAnswer;
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

  // The last size is more than 3 parts of an S3 upload.
  test.each([0, 1, 5_000, 16 * 1024 * 1024 + 7])(
    'stores %d bytes unchanged',
    async (size) => {
      const bytes = new Uint8Array(size);
      for (let offset = 0; offset < size; offset += 65_536) {
        crypto.getRandomValues(bytes.subarray(offset, Math.min(size, offset + 65_536)));
      }
      const key = newObjectKey('wav');
      expect(await store.put(key, inChunks(bytes, 100_003))).toBe(size);
      const found = await read(key);
      expect(found.bytes).toBe(size);
      expect(hashOf(found.content)).toBe(hashOf(bytes));
    },
    120_000,
  );

  test('reads an object in slices and as a stream', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('0123'), Buffer.from('456789')]);
    const object = await store.open(key);
    expect(await object?.body.slice(3, 6).text()).toBe('345');
    const chunks = await Array.fromAsync(object?.body.stream() ?? []);
    expect(Buffer.concat(chunks).toString()).toBe('0123456789');
  });

  test('returns undefined for an object before it is stored and after it is deleted', async () => {
    const key = newObjectKey('txt');
    expect(await store.open(key)).toBeUndefined();
    await store.put(key, [Buffer.from('here')]);
    expect((await read(key)).content.toString()).toBe('here');
    await store.delete(key);
    expect(await store.open(key)).toBeUndefined();
    await store.delete(key);
  });

  test.each([0, 1, 12])(
    'stores nothing if the source fails after %d MiB',
    async (chunks) => {
      const key = newObjectKey('wav');
      async function* failing(): AsyncGenerator<Uint8Array> {
        for (let sent = 0; sent < chunks; sent += 1) yield new Uint8Array(1024 * 1024);
        throw new Error('The client disconnected.');
      }
      expect((await failureOf(store.put(key, failing()))).message).toBe('The client disconnected.');
      expect(await store.open(key)).toBeUndefined();
    },
    120_000,
  );
});

describe('FileObjects', () => {
  test('creates private files and deletes incomplete ones', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
    const store = openObjects(`file:${folder}/objects`, noCredentials, links);
    const key = newObjectKey('txt');
    await store.put(key, [Buffer.from('x')]);
    expect(statSync(join(folder, 'objects')).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'objects', key)).mode & 0o777).toBe(0o600);
    const failing = (function* () {
      yield Buffer.from('half');
      throw new Error('failed');
    })();
    await failureOf(store.put(newObjectKey('txt'), failing));
    expect(readdirSync(join(folder, 'objects'))).toEqual([key]);
    // A killed process leaves a draft, which is deleted with its key.
    const interrupted = newObjectKey('txt');
    writeFileSync(join(folder, 'objects', `${interrupted}.part`), 'half');
    expect(await store.open(interrupted)).toBeUndefined();
    await store.delete(interrupted);
    expect(readdirSync(join(folder, 'objects'))).toEqual([key]);
    rmSync(folder, { recursive: true });
  });

  test.each(['../escape.txt', '/etc/passwd', 'a/b.txt', '.hidden', 'a\0.txt', 'A.txt'])(
    'rejects the key %p',
    async (key) => {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
      const store = openObjects(`file:${folder}/objects`, noCredentials, links);
      const failure = await failureOf(Promise.try(() => store.put(key, [])));
      expect(failure.message).toBe('The object key is malformed.');
      expect(readdirSync(join(folder, 'objects'))).toEqual([]);
      rmSync(folder, { recursive: true });
    },
  );

  test('rejects a file that would leave too little free space, and keeps nothing of it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-objects-'));
    let freeBytes = diskFreeBytesMin + 1.5 * 2 ** 20;
    const store = new FileObjects(folder, links, async () => freeBytes);
    const chunks = (function* () {
      for (let sent = 0; sent < 8; sent += 1) {
        yield new Uint8Array(512 * 1024);
        freeBytes -= 512 * 1024;
      }
    })();
    const failure = await failureOf(store.put(newObjectKey('wav'), chunks));
    expect(failure).toMatchObject({
      status: 503,
      message: "The gateway's disk is almost full, so it stores no files. Try again later.",
      retryAfterSeconds: 60,
    });
    // The free space is checked once per MiB.
    expect(freeBytes).toBeGreaterThanOrEqual(diskFreeBytesMin - 2 ** 20);
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
  });

  test('fails at startup if its folder cannot be created', () => {
    const open = () => openObjects('file:/proc/nowhere/objects', noCredentials, links);
    expect(open).toThrow(
      /^The objects folder \/proc\/nowhere\/objects can't be created \(\w+\)\.$/,
    );
  });
});

describe('S3Objects links', () => {
  let server: S3Server;
  let store: ObjectStorage;
  const linkOptions = (seconds: number) => {
    const now = Date.now();
    return { now, expiresAt: now + seconds * 1000, baseUrl: 'http://unused.test' };
  };

  beforeAll(async () => {
    server = await startS3();
    store = s3StoreOf(server);
  }, 120_000);

  afterAll(() => server.stop());

  test('return the object as an attachment of the right type without credentials', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('audio')]);
    const response = await fetch(store.link(key, linkOptions(60)));
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('audio');
    expect(response.headers.get('content-type')).toBe('audio/mpeg');
    expect(response.headers.get('content-disposition')).toBe('attachment');
  });

  test('exist only for complete uploads, and a failed upload leaves no parts', async () => {
    async function* failing(): AsyncGenerator<Uint8Array> {
      for (let sent = 0; sent < 12; sent += 1) yield new Uint8Array(1024 * 1024);
      expect(server.unfinished().length).toBe(1);
      throw new Error('The client disconnected.');
    }
    const failure = await failureOf(store.put(newObjectKey('wav'), failing()));
    expect(failure.message).toBe('The client disconnected.');
    expect(server.unfinished()).toEqual([]);
  }, 120_000);

  test('expire on time, and a client cannot extend them', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('audio')]);
    const link = store.link(key, linkOptions(1));
    await Bun.sleep(2_100);
    expect(await errorOf(link)).toBe('403 AccessDenied');
    const extended = link.replace('X-Amz-Expires=1&', 'X-Amz-Expires=3600&');
    expect(extended).not.toBe(link);
    expect(await errorOf(extended)).toBe('403 SignatureDoesNotMatch');
  });

  test('are rejected if any character is changed', async () => {
    const [key, other] = [newObjectKey('mp3'), newObjectKey('mp3')];
    await store.put(key, [Buffer.from('audio')]);
    await store.put(other, [Buffer.from('another object')]);
    const link = store.link(key, linkOptions(600));
    const errors = new Map<string, string>();
    for (let i = server.endpoint.length + 1; i < link.length; i += 1) {
      const changed = `${link.slice(0, i)}${link[i] === '1' ? '2' : '1'}${link.slice(i + 1)}`;
      errors.set(changed, await errorOf(changed));
    }
    expect(errors.size).toBeGreaterThan(300);
    const codes = new Set(errors.values());
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
      expect([changed, await errorOf(changed)]).toEqual([
        changed,
        expect.stringMatching(/^40[03] /),
      ]);
    }
    expect(await (await fetch(link)).text()).toBe('audio');
  }, 120_000);

  test('reject other methods', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('audio')]);
    const link = store.link(key, linkOptions(600));
    for (const method of ['PUT', 'POST', 'DELETE']) {
      const body = method === 'DELETE' ? null : 'other content';
      expect([method, (await fetch(link, { method, body })).status]).toEqual([method, 403]);
    }
    expect(await (await fetch(link)).text()).toBe('audio');
  });

  test('and uploads are rejected if they were signed with another secret', async () => {
    const key = newObjectKey('mp3');
    await store.put(key, [Buffer.from('audio')]);
    const attacker = s3StoreOf({ ...server, secretKey: 'guessed' });
    expect(await errorOf(attacker.link(key, linkOptions(600)))).toBe('403 SignatureDoesNotMatch');
    await failureOf(attacker.put(newObjectKey('mp3'), [Buffer.from('other content')]));
    await failureOf(attacker.open(key));
    await failureOf(attacker.delete(key));
    expect(await (await fetch(store.link(key, linkOptions(600)))).text()).toBe('audio');
  });

  test('use the public endpoint', async () => {
    const key = newObjectKey('mp3');
    const publicUrl = new URL(server.endpoint);
    publicUrl.hostname = 'localhost';
    const public_endpoint = publicUrl.origin;
    const named = s3StoreOf(server, { public_endpoint });
    await named.put(key, [Buffer.from('audio')]);
    const link = named.link(key, linkOptions(600));
    expect(link).toStartWith(`${public_endpoint}/${server.bucket}/some/prefix/${key}?`);
    expect(await (await fetch(link)).text()).toBe('audio');
    // A link is valid only for the host that it was signed for.
    const moved = store.link(key, linkOptions(600)).replace(server.endpoint, public_endpoint);
    expect(await errorOf(moved)).toBe('403 SignatureDoesNotMatch');
    await named.delete(key);
    expect(await store.open(key)).toBeUndefined();
  });

  /** Returns the status and the error code of a rejected link. */
  async function errorOf(link: string): Promise<string> {
    const response = await fetch(link);
    const text = await response.text();
    return `${response.status} ${/<Code>(\w+)<\/Code>/.exec(text)?.[1] ?? text}`;
  }

  function without(link: string, name: string): string {
    const [path, query = ''] = link.split('?');
    const parameters = query.split('&').filter((part) => !part.startsWith(`${name}=`));
    return `${path}?${parameters.join('&')}`;
  }

  // Computes the signature as AWS documents it, independently of the test server.
  test('are signed for the object, the method, and the time', () => {
    const key = newObjectKey('mp3');
    const url = new URL(store.link(key, linkOptions(3_600)));
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

async function* failingSource() {
  yield new Uint8Array(9);
  throw new Error('failed');
}

test('S3Objects fails after its timeout if the storage does not respond', async () => {
  const never = new Promise<Response>(() => {});
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 0, fetch: () => never });
  try {
    const [endpoint, region] = [String(server.url), 'us-east-1'];
    const location = { bucket: 'b', prefix: '', endpoint, publicEndpoint: null, region };
    const secret = new Secret('S3RVER');
    const credentials = { accessKeyId: secret, secretAccessKey: secret, sessionToken: null };
    const store = new S3Objects(location, { ...credentials, workload: null }, links, 100);
    const key = newObjectKey('txt');
    const message = "The object storage didn't respond within 100 ms.";
    expect(await failureOf(store.put(key, [new Uint8Array(9)]))).toHaveProperty('message', message);
    expect(await failureOf(store.put(key, failingSource()))).toHaveProperty('message', 'failed');
    expect(await failureOf(store.open(key))).toHaveProperty('message', message);
    expect(await failureOf(store.delete(key))).toHaveProperty('message', message);
  } finally {
    await server.stop(true);
  }
});

function storeAt(endpoint: string): S3Objects {
  const location = { bucket: 'b', prefix: '', endpoint, publicEndpoint: null, region: 'us-east-1' };
  const secret = new Secret('S3RVER');
  const credentials = { accessKeyId: secret, secretAccessKey: secret, sessionToken: null };
  return new S3Objects(location, { ...credentials, workload: null }, links);
}

test.each([403, 503])(
  'S3Objects reports a status %d without a body as a storage error',
  async (status) => {
    const fetch = () => new Response(null, { status });
    await using server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch });
    const { message } = await failureOf(storeAt(String(server.url)).open(newObjectKey('txt')));
    expect(message).toMatch(
      /^The object storage returned an error without a reason\. [^.]+ policy [^.]+\.$/,
    );
  },
);

test('S3Objects reports an unreachable storage', async () => {
  const store = storeAt('http://127.0.0.1:1');
  const key = newObjectKey('txt');
  const message = 'The object storage is unreachable (ConnectionRefused).';
  expect(await failureOf(store.put(key, [new Uint8Array(9)]))).toHaveProperty('message', message);
  expect(await failureOf(store.open(key))).toHaveProperty('message', message);
  expect(await failureOf(store.delete(key))).toHaveProperty('message', message);
});

describe('openObjects', () => {
  const invalidAddress =
    'The objects URL must be s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…&credentials=….';

  test.each([
    ['ftp://a', 'The objects URL must start with file: or s3://.'],
    ['s3://', invalidAddress],
    ['s3://b?endpoint=nonsense', invalidAddress],
    ['s3://b?public_endpoint=files.example.com', invalidAddress],
    ['s3://b?regoin=eu', invalidAddress],
    ['s3://key:secret@b', invalidAddress],
    [
      's3://b/p',
      'Objects on S3 need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add credentials=aws or credentials=aws_instance to the URL.',
    ],
  ])('rejects the address %s', (address, message) => {
    expect(() => openObjects(address, noCredentials, links)).toThrow(message);
  });
});
