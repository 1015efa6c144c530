import { Compile } from 'typebox/schema';
import {
  type KeyChangeRequest,
  keyChangeSchema,
  newKeySchema,
  rotationSchema,
} from '../../contract/keys.ts';
import { invalidRequest } from '../../core/errors.ts';
import { definedFields } from '../../core/json.ts';
import { validate } from '../../core/schema.ts';
import { type ApiKey, type KeyChange, unrestricted } from '../tenant-directory.ts';

/** Reads and validates the request bodies of key management. */

const newKeyCheck = Compile(newKeySchema);
const keyChangeCheck = Compile(keyChangeSchema);
const rotationCheck = Compile(rotationSchema);

/** The fields of a key that its owner sets. */
type KeySettings = Pick<ApiKey, 'kind' | 'name' | keyof typeof unrestricted>;

/** `requestsMax` is the highest limit of requests per minute that the caller can set, or null. */
export function readNewKey(body: unknown, requestsMax: number | null, now: number): KeySettings {
  const input = validate(newKeyCheck, newKeySchema, body);
  const settings: KeySettings = {
    ...unrestricted,
    ...readSettings(input, now),
    kind: input.management ? 'management' : 'routing',
    name: input.name,
  };
  rejectContradictions(settings, requestsMax);
  return settings;
}

export function readKeyChange(
  body: unknown,
  key: ApiKey,
  requestsMax: number | null,
  now: number,
): KeyChange {
  const input = validate(keyChangeCheck, keyChangeSchema, body);
  const change: KeyChange = {
    ...readSettings(input, now),
    ...definedFields({ name: input.name, disabled: input.disabled }),
    // Removing a limit also removes its reset period, unless the request names a period.
    ...(input.limit === null && input.limit_reset === undefined ? { limitReset: null } : {}),
  };
  // The stored rate limit was valid when it was saved, so only a new one is checked.
  rejectContradictions({ ...key, requestsPerMinute: null, ...change }, requestsMax);
  return change;
}

/** Returns the number of seconds for which the previous secret keeps working. */
export function readOverlap(body: unknown): number {
  return validate(rotationCheck, rotationSchema, body).overlap_seconds ?? 0;
}

function readSettings(input: KeyChangeRequest, now: number): KeyChange {
  return definedFields({
    limitCredits: input.limit,
    limitReset: input.limit_reset,
    expiresAt: readExpiry(input.expires_at, now),
    models: input.models && withoutRepeats(input.models),
    scopes: input.scopes && withoutRepeats(input.scopes),
    requestsPerMinute: input.requests_per_minute,
    cacheMode: input.cache,
  });
}

function readExpiry(text: string | null | undefined, now: number): number | null | undefined {
  if (text === null || text === undefined) return text;
  const time = Date.parse(text);
  // Date.parse turns February 30 into a day in March.
  const [date = ''] = text.split('T');
  if (Number.isNaN(time) || !new Date(time).toISOString().startsWith(date)) {
    throw invalidRequest(`expires_at isn't a valid date: "${text}".`, 'expires_at');
  }
  if (time <= now) {
    throw invalidRequest(`expires_at must be in the future, not "${text}".`, 'expires_at');
  }
  return time;
}

function withoutRepeats<T>(list: readonly T[]): readonly T[] {
  return [...new Set(list)];
}

function rejectContradictions(settings: KeySettings, requestsMax: number | null): void {
  if (settings.limitReset !== null && settings.limitCredits === null) {
    throw invalidRequest(
      'limit_reset requires a limit. Set limit, too, or leave limit_reset out.',
      'limit_reset',
    );
  }
  if (settings.kind === 'management') rejectRoutingSettings(settings);
  const requested = settings.requestsPerMinute;
  if (requested !== null && requestsMax !== null && requested > requestsMax) {
    const message =
      `requests_per_minute is ${requested}, but keys of this tenant can have at most ` +
      `${requestsMax}. Lower it, or have the operator raise the tenant's limit.`;
    throw invalidRequest(message, 'requests_per_minute');
  }
}

/** A management key can't call models, so these restrictions would have no effect on it. */
function rejectRoutingSettings({ limitCredits, models, scopes }: KeySettings): void {
  const restrictions = Object.entries({ limit: limitCredits, models, scopes });
  const [field] = restrictions.find(([, value]) => value !== null) ?? [];
  if (field === undefined) return;
  throw invalidRequest(`${field} has no effect on a management key. Leave it out.`, field);
}
