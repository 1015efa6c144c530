import type { CachedRecording, CacheStore } from '../../cache/cache-store.ts';
import { isObject, parseJson } from '../../core/json.ts';
import type { Redis } from './redis.ts';

const prefix = 'answer:';

/** Recordings shared by all processes. While Redis is unreachable, finds and stores nothing. */
export class RedisCacheStore implements CacheStore {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async find(key: string): Promise<CachedRecording | undefined> {
    const bytes = await this.#redis.get(prefix + key);
    return bytes ? readRecording(bytes) : undefined;
  }

  save(key: string, recording: CachedRecording, ttlSeconds: number): void {
    const bytes = new TextEncoder().encode(JSON.stringify(recording));
    void this.#redis.set(prefix + key, bytes, ttlSeconds * 1000);
  }
}

/** Checks every field, because anyone with access to this Redis may have written it. */
function readRecording(bytes: Uint8Array): CachedRecording | undefined {
  const value = parseJson(new TextDecoder().decode(bytes));
  if (!isObject(value)) return undefined;
  const { dialect, form, text, model, provider, dropped = '', recordedAt } = value;
  const isValid =
    [dialect, text, model, provider, dropped].every((field) => typeof field === 'string') &&
    (form === 'stream' || form === 'reply') &&
    typeof recordedAt === 'number';
  return isValid ? (value as unknown as CachedRecording) : undefined;
}
