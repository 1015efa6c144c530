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

/** Checks Redis, if one is configured, and the place of stored objects. */
export function serverChecks(config: Config, store: StoreProbe): readonly Check[] {
  const { redis } = config;
  return [
    ...(redis ? [{ name: 'redis', run: () => redisFinding(redis.reveal()) }] : []),
    { name: 'objects', run: () => checkObjects(config, store) },
  ];
}

/**
 * Whether objects can be stored, and in the same place where other processes of this store keep
 * theirs.
 */
async function checkObjects(config: Config, store: StoreProbe): Promise<Finding | undefined> {
  const found = await objectFinding(config);
  if (found && !found.isHealthy) return found;
  const database = await store.ready();
  if (!database || (await isObjectsLocation(database, config.objects.reveal()))) return found;
  return unhealthy(
    'The last start on this store had them in another place, or they have been moved since.',
    shareObjectsHint,
  );
}

/** A refusal of the server itself begins with its kind: `OOM`, `READONLY`, `NOPERM`. */
const redisErrorPrefix = /^[A-Z]{3,}:? /;
const refusedFix =
  'It runs, and refuses this itself: look at its maxmemory, whether it is a replica or a node of ' +
  'a cluster, and what its user may do.';
const startFix = 'Start it, or set redis (REDIS_URL) to where it runs.';

/** Reads one key under a prefix of the doctor's own, so no gateway's counts are touched. */
async function redisFinding(url: string): Promise<Finding> {
  const reasons: string[] = [];
  const watcher = {
    onAway: (reason: string) => void reasons.push(reason),
    onBack: () => undefined,
  };
  const redis = await Redis.open(url, watcher, [], 'doctor', checkTimeoutMs);
  try {
    const startedAt = performance.now();
    const answer = await redis.get('doctor');
    const ms = Math.round(performance.now() - startedAt);
    if (answer !== undefined) return healthy(`It answers in ${ms} ms.`);
    const [reason = 'it does not answer'] = reasons;
    return unhealthy(
      `It cannot be used: ${asSentence(reason)}`,
      redisErrorPrefix.test(reason) ? refusedFix : startFix,
    );
  } finally {
    redis.close();
  }
}

/** Servers end their reasons with a full stop or without; what to do follows. */
function asSentence(reason: string): string {
  return `${reason.replace(/\.$/, '')}.`;
}

/** Undefined for the default folder: it is in the data folder, which has a check of its own. */
async function objectFinding({ objects, s3Credentials: objectStorage, dataDir }: Config) {
  const address = objects.reveal();
  if (!address.startsWith('file:')) return roundTrip(address, objectStorage);
  const folder = resolve(address.slice('file:'.length));
  if (folder === resolve(join(dataDir, 'objects'))) return undefined;
  return folderFinding(folder, 'objects');
}

/** One small object, written, read and removed. */
async function roundTrip(address: string, identity: Config['s3Credentials']): Promise<Finding> {
  const startedAt = performance.now();
  const store = openS3Objects(address, identity, checkTimeoutMs);
  try {
    const key = newObjectKey('txt');
    const sent = Buffer.from(key);
    await store.put(key, [sent]);
    const stored = await readBack(store, key).finally(() => store.delete(key));
    const ms = Math.round(performance.now() - startedAt);
    if (stored && sent.equals(stored))
      return healthy(`One was written, read and removed in ${ms} ms.`);
    return unhealthy('One that was written cannot be read.', 'Check the policy of the bucket.');
  } catch (error) {
    const why = asSentence(failureMessage(error));
    const identities = 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY';
    return unhealthy(`They cannot be kept: ${why}`, `Check objects (OBJECTS_URL), ${identities}.`);
  }
}

/** Limits the wait: the S3 client itself would wait for ever. */
async function readBack(
  store: ReturnType<typeof openS3Objects>,
  key: string,
): Promise<Uint8Array | undefined> {
  const stored = await store.open(key);
  return stored && (await withTimeout(stored.body.bytes(), checkTimeoutMs));
}
