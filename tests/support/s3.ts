import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver from 's3rver';

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** Parts of uploads that were begun and never ended. */
  unfinished(): readonly string[];
  stop(): Promise<void>;
}

/** A real S3-speaking server with one bucket. It checks expiry, but not every signature. */
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
  const { port } = await server.run();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    accessKey: 'S3RVER',
    secretKey: 'S3RVER',
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
