import { type TSchema, Type } from 'typebox';
import { GatewayError } from './errors.ts';
import { isObject } from './json.ts';
import { didYouMean, pluralize } from './text.ts';

/** Returns the typed value. If it is invalid, throws 400 and names the first invalid field. */
export function validate<T>(
  compiled: { Check(value: unknown): value is T },
  schema: object,
  value: unknown,
): T {
  if (compiled.Check(value)) return value;
  throw validationError(schema, value);
}

const unknownIssue: ValidationIssue = { path: '', message: 'does not have the expected shape' };

/**
 * Returns the error for a value that a schema rejected. `basePath` is the value's path in the
 * request.
 */
export function validationError(schema: object, value: unknown, basePath = ''): GatewayError {
  const issues = explain(schema, value);
  // If a field is misspelled, report that first. It is often the reason why a field is missing.
  const issue = issues.find(({ message }) => message.includes('did you mean')) ?? issues[0];
  const { path, message, unquoted = message } = issue ?? unknownIssue;
  const param = [basePath, path].filter((segment) => segment !== '').join('.');
  const sentence = (text: string) =>
    `${param || 'The request'} ${text}${text.endsWith('?') ? '' : '.'}`;
  return new GatewayError('invalid_request_error', sentence(message), {
    ...(param === '' ? {} : { param }),
    unquoted: sentence(unquoted),
  });
}

/**
 * One reason why a value doesn't match a JSON Schema, with the path as a person writes it
 * (`messages[2].content[0].type`). Compiled validators answer yes or no in microseconds; `explain`
 * runs only after a no, so it can be slower and exact.
 */
export interface ValidationIssue {
  readonly path: string;
  /** Continues the path: `must be a string`. */
  readonly message: string;
  /** The message without the invalid value, if it quotes it. */
  readonly unquoted?: string;
}

/** The subset of JSON Schema that our own schemas use. */
export interface Schema {
  readonly type?: string | undefined;
  readonly const?: unknown | undefined;
  readonly enum?: readonly unknown[] | undefined;
  readonly anyOf?: readonly Schema[] | undefined;
  readonly properties?: Readonly<Record<string, Schema>> | undefined;
  readonly patternProperties?: Readonly<Record<string, Schema>> | undefined;
  readonly required?: readonly string[] | undefined;
  readonly additionalProperties?: boolean | Schema | undefined;
  readonly items?: Schema | undefined;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  readonly minItems?: number | undefined;
  readonly maxItems?: number | undefined;
  readonly pattern?: string | undefined;
  /** An empty object, as in `Type.Never`: no value is valid. */
  readonly not?: object | undefined;
  /** Describes a pattern: `a decimal number in quotes`. */
  readonly expected?: string | undefined;
  /** If an invalid string matches this pattern, the message uses this description instead. */
  readonly nearly?: { readonly pattern: string; readonly expected: string } | undefined;
  /** The value can be a credential, so error messages never quote it. */
  readonly hidden?: boolean | undefined;
}

/** Explaining a body of 500,000 invalid items would take a second. */
const issuesMax = 100;

/**
 * Lists why a value doesn't match a schema. Accepts any schema object, because the schema library's
 * types declare more than this needs.
 */
export function explain(schema: object, value: unknown): ValidationIssue[] {
  return walk(schema, value, '');
}

function walk(schema: Schema, value: unknown, path: string): ValidationIssue[] {
  if (schema.anyOf) return explainUnion(schema, schema.anyOf, value, path);
  if (!fitsType(schema, value)) return [mismatch(schema, value, path)];
  if (typeof value === 'string' || typeof value === 'number') {
    return fitsBounds(schema, value) ? [] : [mismatch(schema, value, path)];
  }
  if (Array.isArray(value)) return explainArray(schema, value, path);
  if (isObject(value)) return explainObject(schema, value, path);
  return [];
}

function explainArray(schema: Schema, value: readonly unknown[], path: string): ValidationIssue[] {
  const { items, minItems = 0 } = schema;
  if (value.length < minItems) {
    return [{ path, message: `must have at least ${pluralize(minItems, 'item')}` }];
  }
  if (value.length > (schema.maxItems ?? Number.POSITIVE_INFINITY)) {
    return [{ path, message: `has ${value.length} items; at most ${schema.maxItems} are allowed` }];
  }
  const issues: ValidationIssue[] = [];
  for (let i = 0; items && i < value.length && issues.length < issuesMax; i++) {
    issues.push(...walk(items, value[i], `${path}[${i}]`));
  }
  return issues;
}

function explainObject(
  schema: Schema,
  value: Record<string, unknown>,
  path: string,
): ValidationIssue[] {
  const issues: ValidationIssue[] = [];
  const known = schema.properties ?? {};
  // Report invalid fields before missing ones, because a mistyped `type` can make others required.
  for (const [name, field] of Object.entries(value)) {
    if (issues.length >= issuesMax) break;
    if (field === undefined) continue;
    const rule = Object.hasOwn(known, name) ? known[name] : unlistedRule(schema, name);
    if (rule === false) {
      const hint = oneLevelDown(name, known, path) || didYouMean(name, Object.keys(known));
      const message = `is not a known field${hint}`;
      issues.push({ path: join(path, name), message });
    } else if (rule) {
      issues.push(...walk(rule, field, join(path, name)));
    }
  }
  for (const name of schema.required ?? []) {
    if (value[name] === undefined) {
      const missing = known[name];
      const hint = missing ? ` (${describe(missing)})` : '';
      issues.push({ path: join(path, name), message: `is required${hint}` });
    }
  }
  return issues;
}

/** Suggests the path of a field that was written one level too high: `server.port` for `port`. */
function oneLevelDown(name: string, known: Readonly<Record<string, Schema>>, path: string): string {
  const section = Object.keys(known).find((one) =>
    Object.hasOwn(known[one]?.properties ?? {}, name),
  );
  return section === undefined ? '' : `; did you mean "${join(path, `${section}.${name}`)}"?`;
}

function unlistedRule(schema: Schema, name: string): Schema | false | undefined {
  for (const [pattern, rule] of Object.entries(schema.patternProperties ?? {})) {
    if (new RegExp(pattern, 'u').test(name)) return rule;
  }
  if (schema.additionalProperties === false) return false;
  return isObject(schema.additionalProperties) ? schema.additionalProperties : undefined;
}

/**
 * Explains the branch that was probably meant. Among those for the value's type, it is the one
 * whose constants match, or else the one with the fewest issues.
 */
function explainUnion(
  schema: Schema,
  branches: readonly Schema[],
  value: unknown,
  path: string,
): ValidationIssue[] {
  const sameType = branches.filter((branch) => fitsType(branch, value));
  if (sameType.length === 0) return [mismatch(schema, value, path)];
  const [only] = sameType;
  if (sameType.length === 1 && only) return walk(only, value, path);
  const tag = tagOf(sameType);
  if (tag !== undefined && isObject(value)) {
    const chosen = sameType.find((branch) => branch.properties?.[tag]?.const === value[tag]);
    if (chosen) return walk(chosen, value, path);
    const choice = { enum: [...new Set(sameType.map((one) => one.properties?.[tag]?.const))] };
    const tagPath = join(path, tag);
    if (value[tag] !== undefined) return [mismatch(choice, value[tag], tagPath)];
    return [{ path: tagPath, message: `is required and must be ${describe(choice)}` }];
  }
  const issuesByBranch = sameType.map((branch) => walk(branch, value, path));
  // If one branch matches, there is no issue. Otherwise explain the matching constant or the branch
  // with the fewest issues.
  const nearestMiss = issuesByBranch.reduce((a, b) => (b.length < a.length ? b : a));
  if (nearestMiss.length === 0) return [];
  return issuesByBranch[sameType.findIndex((branch) => isNamed(branch, value))] ?? nearestMiss;
}

/** Returns whether a constant of a branch, such as its `type`, matches the value. */
function isNamed({ properties = {} }: Schema, value: unknown): boolean {
  return Object.entries(properties).some(
    ([name, { const: fixed }]) => fixed !== undefined && isObject(value) && value[name] === fixed,
  );
}

/** Returns the field that distinguishes the branches of a union, such as `type`. */
function tagOf(branches: readonly Schema[]): string | undefined {
  const [first] = branches;
  return Object.keys(first?.properties ?? {}).find((name) =>
    branches.every((branch) => branch.properties?.[name]?.const !== undefined),
  );
}

function fitsType(schema: Schema, value: unknown): boolean {
  if (schema.not) return false;
  if (schema.const !== undefined) return schema.const === value;
  if (schema.enum) return schema.enum.includes(value);
  if (schema.anyOf) return schema.anyOf.some((branch) => fitsType(branch, value));
  const { type } = schema;
  return type === undefined || (typeChecks[type]?.(value) ?? typeof value === type);
}

/** Checks for types that `typeof` doesn't distinguish. */
const typeChecks: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: isObject,
  array: Array.isArray,
  integer: Number.isSafeInteger,
  number: Number.isFinite,
  null: (value) => value === null,
};

function fitsBounds(schema: Schema, value: string | number): boolean {
  if (typeof value === 'number') {
    return (
      value >= (schema.minimum ?? Number.NEGATIVE_INFINITY) &&
      value <= (schema.maximum ?? Number.POSITIVE_INFINITY)
    );
  }
  return (
    value.length >= (schema.minLength ?? 0) &&
    value.length <= (schema.maxLength ?? Number.POSITIVE_INFINITY) &&
    (schema.pattern === undefined || new RegExp(schema.pattern, 'u').test(value))
  );
}

function mismatch(schema: Schema, value: unknown, path: string): ValidationIssue {
  const { nearly } = schema;
  const isNear = nearly && typeof value === 'string' && new RegExp(nearly.pattern, 'u').test(value);
  const unquoted = `must be ${isNear ? nearly.expected : describe(schema, value)}`;
  if (!mayQuote(schema)) return { path, message: unquoted };
  return { path, message: `${unquoted}, not ${formatValue(value)}`, unquoted };
}

/**
 * Returns whether a message can quote an invalid value. If any part of the schema is hidden, it
 * can't: a string in place of a section may be a key that was pasted one level too high.
 */
function mayQuote(schema: Schema): boolean {
  if (schema.hidden) return false;
  const { anyOf = [], properties = {}, patternProperties = {} } = schema;
  const inside = [...Object.values(properties), ...Object.values(patternProperties)];
  return [...anyOf, ...inside].every(mayQuote);
}

/** Describes what a schema expects, as the end of a sentence. */
function describe(schema: Schema, value?: unknown): string {
  if (schema.expected) return schema.expected;
  if (schema.const !== undefined) return formatValue(schema.const);
  if (schema.enum) return listChoices(schema.enum);
  if (schema.anyOf) {
    // Nearly every optional field can be null, so don't mention it.
    const branches = schema.anyOf.filter((branch) => branch.type !== 'null');
    const constants = branches.filter((branch) => branch.const !== undefined);
    const others = branches
      .filter((branch) => branch.const === undefined)
      .map((branch) => describe(branch, value));
    const listed = listChoices(constants.map((branch) => branch.const));
    const parts = listed ? [listed, ...others] : others;
    return [...new Set(parts)].join(' or ');
  }
  if (schema.items?.enum) {
    return `a list with values from ${schema.items.enum.map(formatValue).join(', ')}`;
  }
  const { type = 'anything' } = schema;
  return `${typeNames[type] ?? type}${describeRange(schema, value)}`;
}

function listChoices(values: readonly unknown[]): string {
  const listed = values.map(formatValue).join(', ');
  return values.length > 1 ? `one of ${listed}` : listed;
}

const typeNames: Readonly<Record<string, string>> = {
  integer: 'a whole number',
  number: 'a number',
  string: 'a string',
  array: 'a list',
  object: 'an object',
  boolean: 'true or false',
};

const largestInteger = Number.MAX_SAFE_INTEGER;

function describeRange(schema: Schema, value: unknown): string {
  const low = schema.minimum ?? schema.minLength;
  // Mention the largest safe integer only if the value exceeds it.
  const isBeyond = schema.type === 'integer' && typeof value === 'number' && value > largestInteger;
  const maximum = schema.maximum === largestInteger ? undefined : schema.maximum;
  const high = maximum ?? (isBeyond ? largestInteger : schema.maxLength);
  const unit = schema.type === 'string' ? (low === 1 && !high ? ' character' : ' characters') : '';
  if (low !== undefined && high !== undefined) return ` from ${low} to ${high}${unit}`;
  if (low !== undefined) return ` of at least ${low}${unit}`;
  if (high !== undefined) return ` of at most ${high}${unit}`;
  return '';
}

/** Formats a value for a message: short, on one line, with quotes around strings. */
function formatValue(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (isObject(value)) return 'an object';
  if (typeof value === 'string') return quote(value);
  return (typeof value === 'number' ? String(value) : JSON.stringify(value)) ?? 'nothing';
}

const quotedLengthMax = 60;

function quote(text: string): string {
  const fullText = JSON.stringify(text.slice(0, quotedLengthMax));
  if (text.length <= quotedLengthMax && fullText.length <= quotedLengthMax) return fullText;
  // Drop entire characters, so that no escape or surrogate pair is split.
  const characters = [...text.slice(0, quotedLengthMax)];
  let start: string;
  do {
    characters.pop();
    start = JSON.stringify(characters.join('')).slice(0, -1);
  } while (start.length > quotedLengthMax - 2);
  return `${start}…"`;
}

function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

// Schema builders shared by modules that can't import each other.

export function nullable<S extends TSchema>(schema: S) {
  return Type.Union([schema, Type.Null()]);
}

/** Makes a field optional. SDKs send `null` for fields that aren't set. */
export function optional<S extends TSchema>(schema: S) {
  return Type.Optional(nullable(schema));
}

export function oneOf<const V extends readonly string[]>(...values: V) {
  return Type.Unsafe<V[number]>(Type.Enum([...values]));
}

export function integer(minimum: number, maximum = Number.MAX_SAFE_INTEGER) {
  return Type.Integer({ minimum, maximum });
}
