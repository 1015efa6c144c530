import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver from '@20minutes/s3rver';

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** Returns the files of all objects in the bucket. */
  objects(): readonly string[];
  /** Returns uploads that were never completed. */
  unfinished(): readonly string[];
  stop(): Promise<void>;
}

/** Starts an S3 server with one bucket. It rejects requests without a valid signature. */
export async function startS3(): Promise<S3Server> {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-s3-'));
  const bucket = 'tollgate-test';
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: bucket, configs: [] }],
  });
  server.middleware.unshift(rejectUnsigned);
  const { port } = await server.run();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    accessKey: 'S3RVER',
    secretKey: 'S3RVER',
    objects() {
      const files = readdirSync(join(directory, bucket), { recursive: true, encoding: 'utf8' });
      return files.filter((name) => name.endsWith('._S3rver_object'));
    },
    unfinished() {
      const uploads = join(directory, bucket, '._S3rver_uploads');
      return existsSync(uploads) ? readdirSync(uploads) : [];
    },
    async stop() {
      await server.close();
      rmSync(directory, { recursive: true });
    },
  };
}

/** Rejects unsigned requests, which the server accepts by default. */
async function rejectUnsigned(request: S3rver.Context, next: () => Promise<void>): Promise<void> {
  if ('X-Amz-Algorithm' in request.query || request.get('authorization') !== '') return next();
  request.status = 403;
  request.type = 'application/xml';
  request.body = '<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>';
}
