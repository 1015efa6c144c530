import { afterAll, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { diskFreeBytesMin } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import { UploadFolder } from './uploads.ts';

const home = mkdtempSync(join(tmpdir(), 'tollgate-uploads-'));
afterAll(() => rmSync(home, { recursive: true }));

const folder = join(home, 'uploads');
const bytes = Uint8Array.from({ length: 700_000 }, (_, index) => (index * 31) % 251);

async function* inPieces(of: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < of.length; index += size) yield of.subarray(index, index + size);
}

async function all(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks));
}

test('UploadFolder lets uploads be read any number of times while its folder stays empty', async () => {
  const directory = new UploadFolder(folder).uploadsFor('acme');
  const upload = await directory.store(inPieces(bytes, 65_537));
  expect(readdirSync(folder)).toEqual([]);
  expect(upload.bytes).toBe(700_000);
  expect(upload.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
  const [once, again] = await Promise.all([all(upload.chunks()), all(upload.chunks())]);
  expect(once.equals(bytes)).toBe(true);
  expect(again.equals(bytes)).toBe(true);
  expect(Buffer.from(await upload.start(5)).equals(bytes.subarray(0, 5))).toBe(true);
  expect(await upload.start(1_000_000)).toHaveLength(700_000);
  const empty = await directory.store(inPieces(new Uint8Array(), 1));
  expect([empty.bytes, await empty.start(5)]).toEqual([0, new Uint8Array()]);
  await directory.clear();
  await directory.clear();
  expect(await failureOf(all(upload.chunks()))).toBeInstanceOf(Error);
});

test('UploadFolder.sweep deletes leftovers of killed processes but no open uploads', async () => {
  const uploads = new UploadFolder(folder);
  const directory = uploads.uploadsFor('acme');
  const upload = await directory.store(inPieces(bytes, 65_537));
  writeFileSync(join(folder, 'leftover'), '');
  writeFileSync(join(folder, '.nfs0001'), 'in use');
  await uploads.sweep();
  expect(readdirSync(folder)).toEqual(['.nfs0001']);
  rmSync(join(folder, '.nfs0001'));
  expect(await upload.start(1_000_000)).toHaveLength(700_000);
  await directory.clear();
  // A missing folder is not an error.
  await new UploadFolder(join(home, 'none')).sweep();
});

test('UploadFolder keeps an upload even if another process sweeps its file first', async () => {
  const uploads = new UploadFolder(folder);
  const directory = uploads.uploadsFor('acme');
  let isOver = false;
  const sweeping = (async () => {
    while (!isOver) await uploads.sweep();
  })();
  for (let index = 0; index < 50; index += 1) {
    expect(await directory.store(inPieces(bytes, 700_000))).toMatchObject({ bytes: 700_000 });
  }
  isOver = true;
  await sweeping;
  await directory.clear();
});

test('UploadFolder passes on an error from the source', async () => {
  const directory = new UploadFolder(folder).uploadsFor('acme');
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Uint8Array.of(1);
    throw new GatewayError('invalid_request_error', 'The body was truncated.');
  }
  const failure = await failureOf(directory.store(broken()));
  expect(failure).toMatchObject({ status: 400, message: 'The body was truncated.' });
  await directory.clear();
  expect(readdirSync(folder)).toEqual([]);
});

test('UploadFolder reports 503 if its folder cannot be created', async () => {
  const file = join(home, 'no-folder');
  writeFileSync(file, '');
  const directory = new UploadFolder(join(file, 'uploads')).uploadsFor('acme');
  const failure = await failureOf(directory.store(inPieces(bytes, 1_000)));
  expect(failure).toMatchObject({ symbol: 'service_unavailable', status: 503 });
});

test('UploadFolder limits the total size of uploads and frees it again', async () => {
  const uploads = new UploadFolder(folder, 2_000_000);
  const [one, two] = [uploads.uploadsFor('acme'), uploads.uploadsFor('acme')];
  await one.store(inPieces(bytes, 100_000));
  const failure = await failureOf(two.store(inPieces(bytes, 100_000)));
  expect(failure).toMatchObject({ symbol: 'service_unavailable', retryAfterSeconds: 5 });
  await two.clear();
  await one.clear();
  expect((await two.store(inPieces(bytes, 100_000))).bytes).toBe(700_000);
  await two.clear();
});

test('UploadFolder leaves half of the free space to other tenants', async () => {
  const uploads = new UploadFolder(folder, 4_000_000);
  const directories = ['greedy', 'next', 'last'].map((tenantId) => uploads.uploadsFor(tenantId));
  const taken: number[] = [];
  for (const directory of directories) {
    let bytes = 0;
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (; ; bytes += 100_000) yield new Uint8Array(100_000);
    }
    expect(await failureOf(directory.store(endless()))).toMatchObject({ status: 503 });
    taken.push(bytes);
  }
  expect(taken).toEqual([2_000_000, 1_000_000, 500_000]);
  for (const directory of directories) await directory.clear();
  const again = uploads.uploadsFor('last');
  expect((await again.store(inPieces(bytes, 100_000))).bytes).toBe(700_000);
  await again.clear();
});

test('UploadFolder rejects an upload that would leave too little free space', async () => {
  const uploads = new UploadFolder(folder, 1e9, async () => diskFreeBytesMin + bytes.length - 1);
  const directory = uploads.uploadsFor('acme');
  expect(await failureOf(directory.store(inPieces(bytes, bytes.length)))).toMatchObject({
    status: 503,
    symbol: 'service_unavailable',
  });
  await directory.clear();
});
