import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { allowListMax } from '../../core/bounds.ts';
import { cacheModes, limitResets, scopes } from '../../core/caller.ts';
import { invalidRequest } from '../../core/errors.ts';
import { definedFields } from '../../core/json.ts';
import { integer, oneOf, optional, validate } from '../../core/schema.ts';
import { type ApiKey, type KeyChange, type Tenant, unrestricted } from '../directory.ts';
import { countField, nameField } from './field-schemas.ts';

/** What may be asked of a key, and every rule about it. */

/** A week: long enough to roll a new secret out, short enough that the old one is not forgotten. */
const overlapSecondsMax = 604_800;

/** A name without a brand is refused: no model has one, and the key could call nothing with it. */
const modelPattern = Type.String({
  pattern: '^(?=[^/]*\\*$|.+/)(?:\\*|[\\w.:/@+~-]{1,199}\\*?)$',
  expected: 'a model alias such as "openai/gpt-4o", with "*" at the end only',
});

const settings = {
  limit: optional(countField(0)),
  limit_reset: optional(oneOf(...limitResets)),
  expires_at: optional(
    Type.String({
      pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d{1,9})?)?(?:Z|\\+00:00)$',
      expected: 'a UTC time such as "2030-01-31T00:00:00Z"',
    }),
  ),
  models: optional(Type.Array(modelPattern, { minItems: 1, maxItems: allowListMax })),
  scopes: optional(Type.Array(oneOf(...scopes), { minItems: 1, maxItems: scopes.length })),
  requests_per_minute: optional(countField(1)),
  cache: optional(oneOf(...cacheModes)),
};

const noOtherFields = { additionalProperties: false };

export const newKeySchema = Type.Object(
  { name: nameField(), ...settings, management: optional(Type.Boolean()) },
  noOtherFields,
);
export const keyChangeSchema = Type.Object(
  { name: Type.Optional(nameField()), disabled: Type.Optional(Type.Boolean()), ...settings },
  noOtherFields,
);
export const rotationSchema = Type.Object(
  { overlap_seconds: optional(integer(0, overlapSecondsMax)) },
  noOtherFields,
);

const newKeyCheck = Compile(newKeySchema);
const keyChangeCheck = Compile(keyChangeSchema);
const rotationCheck = Compile(rotationSchema);

/** The parts of a key that its owner decides. */
type KeySettings = Pick<ApiKey, 'kind' | 'name' | keyof typeof unrestricted>;

export function readNewKey(body: unknown, tenant: Tenant, now: number): KeySettings {
  const input = validate(newKeyCheck, newKeySchema, body);
  const settings: KeySettings = {
    ...unrestricted,
    ...readSettings(input, now),
    kind: input.management ? 'management' : 'routing',
    name: input.name,
  };
  rejectContradictions(settings, tenant);
  return settings;
}

export function readKeyChange(body: unknown, key: ApiKey, tenant: Tenant, now: number): KeyChange {
  const input = validate(keyChangeCheck, keyChangeSchema, body);
  const change: KeyChange = {
    ...readSettings(input, now),
    ...definedFields({ name: input.name, disabled: input.disabled }),
    // Removing a limit removes its reset period; naming a period as well is a contradiction.
    ...(input.limit === null && input.limit_reset === undefined ? { limitReset: null } : {}),
  };
  // What the key already has was checked when it was written; only the change is judged.
  rejectContradictions({ ...key, requestsPerMinute: null, ...change }, tenant);
  return change;
}

/** Seconds that the old secret goes on working. */
export function readOverlap(body: unknown): number {
  return validate(rotationCheck, rotationSchema, body).overlap_seconds ?? 0;
}

function readSettings(input: Static<typeof keyChangeSchema>, now: number): KeyChange {
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
  // The parser turns the 30th of February into March; a key must end when its owner thinks.
  const [date = ''] = text.split('T');
  if (Number.isNaN(time) || !new Date(time).toISOString().startsWith(date)) {
    throw invalidRequest(`expires_at is not a date that exists: "${text}".`, 'expires_at');
  }
  if (time <= now) {
    throw invalidRequest(`expires_at must be in the future, not "${text}".`, 'expires_at');
  }
  return time;
}

function withoutRepeats<T>(list: readonly T[]): readonly T[] {
  return [...new Set(list)];
}

function rejectContradictions(settings: KeySettings, tenant: Tenant): void {
  if (settings.limitReset !== null && settings.limitCredits === null) {
    throw invalidRequest('limit_reset needs a limit: there is nothing to reset.', 'limit_reset');
  }
  if (settings.kind === 'management') rejectRoutingSettings(settings);
  const requested = settings.requestsPerMinute;
  if (requested !== null && requested > (tenant.requestsPerMinute ?? requested)) {
    const message =
      `requests_per_minute is ${requested}, ` +
      `above the ${tenant.requestsPerMinute} that this tenant may make.`;
    throw invalidRequest(message, 'requests_per_minute');
  }
}

/** These restrict calls to models; on a management key they would only look like protection. */
function rejectRoutingSettings({ limitCredits, models, scopes }: KeySettings): void {
  const restrictions = Object.entries({ limit: limitCredits, models, scopes });
  const [field] = restrictions.find(([, value]) => value !== null) ?? [];
  if (field === undefined) return;
  throw invalidRequest(`${field} cannot restrict a management key; leave it out.`, field);
}
