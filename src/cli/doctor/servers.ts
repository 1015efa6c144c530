import { join, resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { failureMessage } from '../../core/failure-code.ts';
import { shareObjects } from '../../core/missing-object.ts';
import { newObjectKey } from '../../core/object-key.ts';
import { within } from '../../core/within.ts';
import { openS3Objects } from '../../store/objects/open.ts';
import { isPlaceOf } from '../../store/objects/place.ts';
import { Redis } from '../../store/redis/redis.ts';
import { type Check, type Finding, patienceMs, unwell, well } from './check.ts';
import { folderFinding } from './folders.ts';
import type { StoreLook } from './store.ts';

/** Checks Redis, if one is configured, and the place of stored objects. */
export function serverChecks(config: Config, store: StoreLook): readonly Check[] {
  const { redis } = config;
  return [
    ...(redis ? [{ name: 'redis', look: () => redisFinding(redis.reveal()) }] : []),
    { name: 'objects', look: () => objectsHere(config, store) },
  ];
}

/**
 * Whether objects can be stored, and in the same place where other processes of this store keep
 * theirs.
 */
async function objectsHere(config: Config, store: StoreLook): Promise<Finding | undefined> {
  const found = await objectFinding(config);
  if (found && !found.isWell) return found;
  const database = await store.ready();
  if (!database || (await isPlaceOf(database, config.objects.reveal()))) return found;
  return unwell(
    'The last start on this store had them in another place, or they have been moved since.',
    shareObjects,
  );
}

/** A refusal of the server itself begins with its kind: `OOM`, `READONLY`, `NOPERM`. */
const ownWords = /^[A-Z]{3,}:? /;
const allow =
  'It runs, and refuses this itself: look at its maxmemory, whether it is a replica or a node of ' +
  'a cluster, and what its user may do.';
const start = 'Start it, or set redis (REDIS_URL) to where it runs.';

/** Reads one key under a prefix of the doctor's own, so no gateway's counts are touched. */
async function redisFinding(url: string): Promise<Finding> {
  const away: string[] = [];
  const watcher = { onAway: (reason: string) => void away.push(reason), onBack: () => undefined };
  const redis = await Redis.open(url, watcher, [], 'doctor', patienceMs);
  try {
    const startedAt = performance.now();
    const answer = await redis.get('doctor');
    const ms = Math.round(performance.now() - startedAt);
    if (answer !== undefined) return well(`It answers in ${ms} ms.`);
    const [reason = 'it does not answer'] = away;
    return unwell(
      `It cannot be used: ${asSentence(reason)}`,
      ownWords.test(reason) ? allow : start,
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
async function objectFinding({ objects, objectStorage, dataDir }: Config) {
  const address = objects.reveal();
  if (!address.startsWith('file:')) return roundTrip(address, objectStorage);
  const folder = resolve(address.slice('file:'.length));
  if (folder === resolve(join(dataDir, 'objects'))) return undefined;
  return folderFinding(folder, 'objects');
}

/** One small object, written, read and removed. */
async function roundTrip(address: string, identity: Config['objectStorage']): Promise<Finding> {
  const startedAt = performance.now();
  const store = openS3Objects(address, identity, patienceMs);
  try {
    const key = newObjectKey('txt');
    const sent = Buffer.from(key);
    await store.put(key, [sent]);
    const kept = await readBack(store, key).finally(() => store.delete(key));
    const ms = Math.round(performance.now() - startedAt);
    if (kept && sent.equals(kept)) return well(`One was written, read and removed in ${ms} ms.`);
    return unwell('One that was written cannot be read.', 'Check the policy of the bucket.');
  } catch (thrown) {
    const why = asSentence(failureMessage(thrown));
    const identities = 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY';
    return unwell(`They cannot be kept: ${why}`, `Check objects (OBJECTS_URL), ${identities}.`);
  }
}

/** Limits the wait: the S3 client itself would wait for ever. */
async function readBack(
  store: ReturnType<typeof openS3Objects>,
  key: string,
): Promise<Uint8Array | undefined> {
  const kept = await store.open(key);
  return kept && (await within(kept.body.bytes(), patienceMs));
}
