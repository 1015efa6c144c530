import { Compile } from 'typebox/schema';
import type { Config } from '../config/config.ts';
import { type KeyRotationBody, keyRotationSchema } from '../contract/provider-calls.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import { fieldsOf, isObject, type JsonObject, objectsIn } from '../core/json.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { validate } from '../core/schema.ts';
import {
  type ConfigObject,
  type ConfigServiceDeps,
  changeOf,
  editObject,
  type Precondition,
  showObject,
} from './config-service.ts';
import type { ConfigSnapshot, StoredObject } from './config-store.ts';

// Replaces keys of providers without a moment in which requests fail: the previous key stays usable
// for a while, in case the provider doesn't accept the new one.

const defaultOverlapSeconds = 86_400;
const rotationCheck = Compile(keyRotationSchema);

/** Replaces a provider's key. Throws 400, 404, 409, 412. */
export async function rotateProviderKey(
  deps: ConfigServiceDeps,
  name: string,
  body: unknown,
  precondition: Precondition = {},
): Promise<ConfigObject> {
  const input = validate(rotationCheck, keyRotationSchema, body);
  // An unknown name, or a key in the environment.
  const shown = await showObject(deps, 'provider', name);
  const vault = await deps.vault();
  const rotate = (_: JsonObject | undefined, stored: StoredObject | undefined) => {
    if (!stored) throw notStored(name);
    const { document, problem } = vault.open(stored);
    if (problem !== undefined)
      throw invalidRequest(`The provider "${name}" ${problem}.`, 'name', 409);
    return rotated(document, input, deps.now());
  };
  if (shown.owner === 'built_in') throw notStored(name);
  const options = { omitted: 'remove', action: 'provider.rotate_key' } as const;
  const { object } = await editObject(
    deps,
    { kind: 'provider', name },
    rotate,
    precondition,
    options,
  );
  return object;
}

function rotated(document: JsonObject, input: KeyRotationBody, now: number): JsonObject {
  const { api_key: text, key: name, overlap_seconds: seconds = defaultOverlapSeconds } = input;
  const until = new Date(now + seconds * 1000).toISOString();
  const replace = ({ previous_key: _, ...rest }: JsonObject, field: 'api_key' | 'key') => {
    if (rest[field] === text) {
      throw invalidRequest('api_key is the key that the provider already has.', 'api_key');
    }
    const previous = seconds > 0 ? { previous_key: { key: rest[field], until } } : {};
    return { ...rest, [field]: text, ...previous };
  };
  if (!Array.isArray(document.api_keys)) {
    if (name !== undefined) {
      throw invalidRequest('key must be left out, because the provider has only one key.', 'key');
    }
    if (typeof document.api_key === 'string') return replace(document, 'api_key');
    throw invalidRequest('The provider has no key to replace.', undefined, 409);
  }
  const keys = objectsIn(document.api_keys);
  if (!keys.some((key) => key.name === name)) {
    const names = keys.map((key) => key.name).join(', ');
    throw invalidRequest(`key must be the name of the key to replace: ${names}.`, 'key');
  }
  const api_keys = keys.map((key) => (key.name === name ? replace(key, 'key') : key));
  return { ...document, api_keys };
}

function notStored(name: string): GatewayError {
  const message =
    `The key of the provider "${name}" isn't in the store, so it can't be rotated. Save it with ` +
    'PUT or PATCH first.';
  return invalidRequest(message, undefined, 409);
}

interface CleanupDeps extends Pick<ConfigServiceDeps, 'store' | 'vault' | 'now'> {
  /** Returns the configuration in use. */
  current(): Pick<Config, 'providers'>;
}

/** How long an unusable key stays in the store at most. */
const cleanupMs = 60_000;

/** Returns the task that removes previous keys from the store when their time is over. */
export function keyRotationTasks(deps: CleanupDeps): PeriodicTask[] {
  const run = async () => {
    const keys = [...deps.current().providers.values()].flatMap(({ keys = [] }) => keys);
    const now = deps.now();
    if (keys.some(({ until }) => until !== null && until <= now)) await removeOldKeys(deps);
  };
  return [{ everyMs: cleanupMs, run }];
}

/** Removes previous keys whose time is over from the store. */
export async function removeOldKeys({ store, vault, now }: CleanupDeps): Promise<void> {
  // Those of a file stay there.
  if (outdated(await store.read(), now()).length === 0) return;
  const opened = await vault();
  await store.change(now(), opened.fingerprint, (current, sealingKey) => {
    const saved = outdated(current, now()).map(({ stored, document }) =>
      opened.seal({ ...stored, document }, { stored, omitted: 'remove', sealingKey }),
    );
    const audited = saved.map(({ name, document }) => {
      const before = current.objects.find((one) => one.kind === 'provider' && one.name === name);
      const change = changeOf('provider', name, before?.document ?? null, document);
      return { ...change, action: 'provider.drop_key' };
    });
    return { saved, removed: [], audited };
  });
}

function outdated({ objects }: ConfigSnapshot, now: number) {
  return objects.flatMap((stored) => {
    if (stored.kind !== 'provider') return [];
    const document = withoutOldKeys(stored.document, now);
    return document === stored.document ? [] : [{ stored, document }];
  });
}

/** Returns the same document if no key in it is outdated. */
function withoutOldKeys(document: JsonObject, now: number): JsonObject {
  const isOver = ({ previous_key: previous }: JsonObject) =>
    isObject(previous) && Date.parse(String(fieldsOf(previous).until)) <= now;
  const keys = objectsIn(document.api_keys);
  if (!isOver(document) && !keys.some(isOver)) return document;
  const without = (object: JsonObject) => {
    const { previous_key: _, ...rest } = object;
    return isOver(object) ? rest : object;
  };
  const changed = without(document);
  return keys.length === 0 ? changed : { ...changed, api_keys: keys.map(without) };
}
