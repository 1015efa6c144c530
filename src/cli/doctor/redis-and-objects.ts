import { join, resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { withTimeout } from '../../core/deadlines.ts';
import { failureMessage } from '../../core/errors.ts';
import { newObjectKey, shareObjectsHint } from '../../core/stored-object.ts';
import { isObjectsLocation, openS3Objects } from '../../store/objects/open.ts';
import { Redis } from '../../store/redis/redis.ts';
import {
  type Check,
  checkTimeoutMs,
  type Finding,
  folderFinding,
  healthy,
  unhealthy,
} from './check.ts';
import type { StoreProbe } from './store.ts';

/** Returns the checks of Redis, if it is configured, and of the object storage. */
export function serverChecks(config: Config, store: StoreProbe): readonly Check[] {
  const { redis } = config;
  return [
    ...(redis ? [{ name: 'redis', run: () => redisFinding(redis.reveal()) }] : []),
    { name: 'objects', run: () => checkObjects(config, store) },
  ];
}

/**
 * Checks that objects can be stored, and that all processes on this database use the same store.
 */
async function checkObjects(config: Config, store: StoreProbe): Promise<Finding | undefined> {
  const found = await objectFinding(config);
  if (found && !found.isHealthy) return found;
  const database = await store.ready();
  if (!database || (await isObjectsLocation(database, config.objects.reveal()))) return found;
  return unhealthy(
    'The object store has moved, or the last gateway started on this database used a different one.',
    shareObjectsHint,
  );
}

/** An error from the server itself starts with an error code, such as `OOM` or `NOPERM`. */
const redisErrorPrefix = /^[A-Z]{3,}:? /;
const serverErrorFix =
  "Redis is running but rejects the command. Check its maxmemory and the user's permissions, and " +
  "make sure that it isn't a replica or a cluster node.";
const startFix = 'Start Redis, or set the redis option (REDIS_URL) to its URL.';

/** Reads one key under the doctor's own prefix, so that no gateway's counts change. */
async function redisFinding(url: string): Promise<Finding> {
  const reasons: string[] = [];
  const watcher = {
    onUnreachable: (reason: string) => void reasons.push(reason),
    onReconnected: () => undefined,
  };
  const redis = await Redis.open(url, watcher, [], 'doctor', checkTimeoutMs);
  try {
    const startedAt = performance.now();
    const value = await redis.get('doctor');
    const ms = Math.round(performance.now() - startedAt);
    if (value !== undefined) return healthy(`Redis answers in ${ms} ms.`);
    const [reason = "it doesn't answer"] = reasons;
    return unhealthy(
      `Redis can't be used: ${asSentence(reason)}`,
      redisErrorPrefix.test(reason) ? serverErrorFix : startFix,
    );
  } finally {
    redis.close();
  }
}

/** Ends a server's message with a period, because another sentence follows. */
function asSentence(reason: string): string {
  return `${reason.replace(/\.$/, '')}.`;
}

/** Returns undefined for the default folder, because the data directory's check covers it. */
async function objectFinding({ objects, s3Credentials, dataDir }: Config) {
  const url = objects.reveal();
  if (!url.startsWith('file:')) return roundTrip(url, s3Credentials);
  const folder = resolve(url.slice('file:'.length));
  if (folder === resolve(join(dataDir, 'objects'))) return undefined;
  return folderFinding(folder, 'objects');
}

const noLinks = { make: () => '' };

/** Writes, reads, and deletes a small object. */
async function roundTrip(url: string, credentials: Config['s3Credentials']): Promise<Finding> {
  const startedAt = performance.now();
  const store = openS3Objects(url, credentials, noLinks, checkTimeoutMs);
  try {
    const key = newObjectKey('txt');
    const sent = Buffer.from(key);
    await store.put(key, [sent]);
    const stored = await readBack(store, key).finally(() => store.delete(key));
    const ms = Math.round(performance.now() - startedAt);
    if (stored && sent.equals(stored))
      return healthy(`An object was written, read, and deleted in ${ms} ms.`);
    return unhealthy("A written object can't be read back.", "Check the bucket's policy.");
  } catch (error) {
    const reason = asSentence(failureMessage(error));
    const variables = 'AWS_ACCESS_KEY_ID, and AWS_SECRET_ACCESS_KEY';
    return unhealthy(
      `Objects can't be stored: ${reason}`,
      credentials.workload
        ? 'Check the objects option (OBJECTS_URL) and its credentials.'
        : `Check the objects option (OBJECTS_URL), ${variables}.`,
    );
  }
}

/** Reads the object with a timeout, because the S3 client has none. */
async function readBack(
  store: ReturnType<typeof openS3Objects>,
  key: string,
): Promise<Uint8Array | undefined> {
  const stored = await store.open(key);
  return stored && (await withTimeout(stored.body.bytes(), checkTimeoutMs));
}
