import type { Caller } from '../../core/caller.ts';
import { GatewayError } from '../../core/errors.ts';
import type { ApiKey, KeyChange, TenantDirectory } from '../tenant-directory.ts';

// What a management key may not do. Otherwise, someone who steals a key that expires soon, or that
// has limits, could use it to get a key without them.

type NewKey = Pick<ApiKey, 'kind' | 'expiresAt' | 'requestsPerMinute'>;

/** A management key that manages its tenant's keys. */
export class Manager {
  readonly #key: ApiKey;
  /** True if the caller used the secret that the latest rotation replaced. */
  readonly #hasPreviousSecret: boolean;

  private constructor(key: ApiKey, hasPreviousSecret: boolean) {
    this.#key = key;
    this.#hasPreviousSecret = hasPreviousSecret;
  }

  /** Throws 401 if the key was deleted in the meantime. */
  static async of(directory: Pick<TenantDirectory, 'getKey'>, caller: Caller): Promise<Manager> {
    const key = await directory.getKey(caller.tenantId, caller.keyId);
    if (!key) throw new GatewayError('invalid_api_key', 'This API key was deleted.');
    return new Manager(key, caller.expiresAt !== null && isAfter(key.expiresAt, caller.expiresAt));
  }

  /** Returns when a new key expires: when its manager does, unless the request names a time. */
  expiryOf(requested: number | null): number | null {
    return requested ?? this.#key.expiresAt;
  }

  /** Throws 403. */
  checkNewKey(key: NewKey): void {
    if (key.kind === 'management') this.#rejectPreviousSecret();
    if (isAfter(key.expiresAt, this.#key.expiresAt)) throw this.#outlives();
    if (this.#isFaster(key)) throw this.#tooFast();
  }

  /** Throws 403. A restriction is always allowed, even if the result still exceeds the manager. */
  checkChange(key: ApiKey, change: KeyChange): void {
    const { expiresAt, requestsPerMinute, disabled } = change;
    if (expiresAt !== undefined && isAfter(expiresAt, key.expiresAt)) {
      if (isAfter(expiresAt, this.#key.expiresAt)) throw this.#outlives();
    }
    if (requestsPerMinute !== undefined && isAbove(requestsPerMinute, key.requestsPerMinute)) {
      if (this.#isFaster({ ...key, requestsPerMinute })) throw this.#tooFast();
    }
    if (disabled === false && key.disabledByOperator) {
      throw forbidden(
        'The operator disabled this key. Only the operator can enable it.',
        'disabled',
      );
    }
  }

  /** Throws 403. The new secret of a key would outlive its manager as a new key would. */
  checkRotation(key: ApiKey): void {
    if (key.kind === 'management') this.#rejectPreviousSecret();
    if (isAfter(key.expiresAt, this.#key.expiresAt)) {
      throw forbidden(
        "This management key can't rotate a key that expires after it. " +
          'Use one that expires later.',
      );
    }
    if (this.#isFaster(key)) throw this.#tooFast();
  }

  /** Only management keys are compared, because the limit of a manager isn't about model calls. */
  #isFaster({ kind, requestsPerMinute }: Omit<NewKey, 'expiresAt'>): boolean {
    return kind === 'management' && isAbove(requestsPerMinute, this.#key.requestsPerMinute);
  }

  #rejectPreviousSecret(): void {
    if (!this.#hasPreviousSecret) return;
    throw forbidden(
      "The previous secret of a management key can't create or rotate management keys. " +
        'Use its current secret.',
    );
  }

  #outlives(): GatewayError {
    const until = new Date(this.#key.expiresAt ?? 0).toISOString();
    const message =
      `expires_at can't be after ${until}, when the management key of this request expires. ` +
      'Use an earlier time, or a management key that expires later.';
    return forbidden(message, 'expires_at');
  }

  #tooFast(): GatewayError {
    const message =
      `requests_per_minute of a management key can be at most ${this.#key.requestsPerMinute}, ` +
      'the limit of the management key of this request.';
    return forbidden(message, 'requests_per_minute');
  }
}

/** Null means never. */
function isAfter(time: number | null, other: number | null): boolean {
  return other !== null && (time === null || time > other);
}

/** Null means no limit. */
const isAbove = isAfter;

function forbidden(message: string, param?: string): GatewayError {
  return new GatewayError('forbidden', message, param === undefined ? {} : { param });
}
