/** What an upstream complains of: no two upstreams word or shape their errors alike. */
import { type Fields, fieldsOf, isObject, isText } from '../../core/json.ts';
import { parseExact } from './exact-json.ts';

/** The fields in which vendors put the sentence of an error, the surest first. */
const messageNames = [
  'error',
  'message',
  'detail',
  'msg',
  'errors',
  'status_msg',
  'error_msg',
  'Message',
  'reason',
  'title',
];

/** The sentence in an error of any shape: an object, a list of them, or the text itself. */
function findMessage(raw: unknown, depth = 0): string | undefined {
  if (typeof raw === 'string') return sentenceIn(raw.trim(), depth);
  if (depth > 4) return undefined;
  if (Array.isArray(raw)) return findMessage(raw[0], depth + 1);
  if (!isObject(raw)) return undefined;
  for (const name of messageNames) {
    const found = findMessage(raw[name], depth + 1);
    if (found !== undefined) return `${placeIn(raw)}${found}${listedIn(raw, found, depth)}`;
  }
  return undefined;
}

/**
 * The place in the request, which FastAPI puts into `loc`; its sentence may be just «Field
 * required».
 */
function placeIn({ loc }: Fields): string {
  if (!Array.isArray(loc)) return '';
  const steps = loc.map((step) =>
    typeof step === 'number' ? `[${step}]` : `.${isText(step) ? step : '?'}`,
  );
  const path = steps.join('').replace(/^\.(?:body\.)?/, '');
  return plainPath.test(path) ? `${path}: ` : '';
}

/** The first of the errors below a heading, such as «Validation Error». */
function listedIn({ errors }: Fields, heading: string, depth: number): string {
  const listed = findMessage(errors, depth + 1) ?? firstSentence(errors, depth);
  if (listed === undefined || heading.includes(listed)) return '';
  return `${/[.!?:]$/.test(heading) ? '' : ':'} ${listed}`;
}

/** A server that passes on another's error may put all of its JSON where the sentence should be. */
function sentenceIn(text: string, depth: number): string | undefined {
  const quoted = /^[{[]/.test(text) ? parseExact(text) : undefined;
  return quoted === undefined ? text || undefined : findMessage(quoted, depth + 1);
}

/** For errors of an unknown shape: the first text of several words. */
function firstSentence(raw: unknown, depth = 0): string | undefined {
  if (typeof raw === 'string') return /\S\s/.test(raw.trim()) ? raw.trim() : undefined;
  if (depth > 2 || typeof raw !== 'object' || raw === null) return undefined;
  for (const each of Object.values(raw)) {
    const found = firstSentence(each, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** OpenRouter's own sentence says only that a provider failed; `raw` is what that provider said. */
function quotedIn({ raw }: Fields): string | undefined {
  const quoted = findMessage(raw);
  return quoted?.startsWith('<') ? undefined : quoted;
}

/** Matches only what can be the name of a field, not a text that somebody wrote into one. */
const plainPath = /^[\w.[\]-]{1,100}$/;

export interface Complaint {
  readonly message: string | undefined;
  /** The field of the request that the error is about. */
  readonly param: string | undefined;
  /** In lower case, the most telling first. */
  readonly codes: readonly string[];
  readonly claimedStatus: number | null;
  readonly details: readonly unknown[];
  readonly isModeration: boolean;
}

function readStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' ? Number(value) : value;
  const isStatus = typeof status === 'number' && Number.isInteger(status);
  return isStatus && status >= 400 && status <= 599 ? status : undefined;
}

export function readComplaint(raw: unknown, named: string | null = null): Complaint {
  const outside = fieldsOf(Array.isArray(raw) ? raw[0] : raw);
  const inside = fieldsOf(outside.error);
  const innermost = fieldsOf(inside.innererror);
  const metadata = fieldsOf(inside.metadata);
  const details = Array.isArray(inside.details) ? inside.details : [inside.details];
  const reasons = details.filter(isObject).flatMap((each) => [each.reason, each.error_code]);
  const words = [innermost.code, ...reasons, inside.code, inside.type, inside.status];
  const shapes = [named, outside.__type].filter(isText).map(shapeName);
  const codes = [...words, outside.code, outside.type, outside.error_type, ...shapes];
  const claims = [inside.status_code, inside.code, inside.status, outside.code];
  return {
    message: quotedIn(metadata) ?? findMessage(raw) ?? firstSentence(raw),
    param: isText(inside.param) && plainPath.test(inside.param) ? inside.param : undefined,
    codes: codes.filter((code) => typeof code === 'string').map((code) => code.toLowerCase()),
    claimedStatus: claims.map(readStatus).find((status) => status !== undefined) ?? null,
    details,
    isModeration: metadata.flagged_input !== undefined || Array.isArray(metadata.reasons),
  };
}

/** Amazon may write the name of an error between a namespace and an address. */
function shapeName(name: string): string {
  return name.replaceAll(/^[^#:]*#|:.*$/g, '');
}
