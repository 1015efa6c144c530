import { asGatewayError, invalidRequest } from '../core/errors.ts';
import { isObject, type JsonObject, parseJson } from '../core/json.ts';

// Reads request bodies and their fields. As in OpenAI's API, `null` counts as absent.

/** Bun's type, which differs from the global `FormData`. */
export type Form = Awaited<ReturnType<Request['formData']>>;

/** Long enough to watch a stream, or to disconnect in the middle of one. */
const delayMsMax = 2_000;

export async function readJsonBody(request: Request): Promise<JsonObject> {
  const body = parseJson(await request.text());
  if (isObject(body)) return body;
  throw invalidRequest("The request body isn't a JSON object.");
}

export async function readForm(request: Request): Promise<Form> {
  try {
    return await request.formData();
  } catch {
    throw invalidRequest("The request body isn't valid multipart/form-data.");
  }
}

/** Returns the text fields of a form, to be read like those of a JSON body. */
export function formFields(form: Form): JsonObject {
  return Object.fromEntries([...form.entries()].filter(([, value]) => typeof value === 'string'));
}

/** Returns the files of a form field, which may be spelled `name` or `name[]`. */
export function formFiles(form: Form, name: string): File[] {
  return [...form.getAll(name), ...form.getAll(`${name}[]`)].filter(
    (value) => typeof value !== 'string',
  );
}

export function textField(fields: JsonObject, name: string): string | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw invalidRequest(`'${name}' must be a string.`, name);
}

export function requiredTextField(fields: JsonObject, name: string): string {
  const text = textField(fields, name);
  if (text !== undefined && text !== '') return text;
  throw invalidRequest(`'${name}' is required and must not be empty.`, name);
}

export function choiceField<Choice extends string>(
  fields: JsonObject,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const text = textField(fields, name);
  if (text === undefined) return undefined;
  const choice = choices.find((candidate) => candidate === text);
  if (choice !== undefined) return choice;
  throw invalidRequest(`'${name}' must be one of ${choices.join(', ')}.`, name);
}

/** Reads a number. Numeric text is accepted too, because forms have only text. */
export function numberField(
  fields: JsonObject,
  name: string,
  min: number,
  max: number,
): number | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined) return undefined;
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && number >= min && number <= max) return number;
  throw invalidRequest(`'${name}' must be a number from ${min} to ${max}.`, name);
}

export function integerField(
  fields: JsonObject,
  name: string,
  min: number,
  max: number,
): number | undefined {
  const number = numberField(fields, name, min, max);
  if (number === undefined || Number.isInteger(number)) return number;
  throw invalidRequest(`'${name}' must be a whole number.`, name);
}

export function flagField(fields: JsonObject, name: string): boolean {
  const value = fields[name] ?? false;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw invalidRequest(`'${name}' must be true or false.`, name);
}

/** Reads `demo_delay_ms`: the pause before each chunk of the answer. */
export function delayField(fields: JsonObject): number {
  return integerField(fields, 'demo_delay_ms', 0, delayMsMax) ?? 0;
}

// Replies of the demo endpoints.

export type Bytes = Uint8Array<ArrayBuffer>;

/** An async generator, so that Bun applies backpressure and stops when the client disconnects. */
export type ReplyStream = AsyncGenerator<string | Bytes, void, undefined>;

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | ReplyStream;
}

export function jsonReply(value: unknown, status = 200): Reply {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  };
}

export function textReply(text: string, contentType = 'text/plain; charset=utf-8'): Reply {
  return { status: 200, headers: { 'content-type': contentType }, body: text };
}

export function streamReply(contentType: string, body: ReplyStream): Reply {
  return {
    status: 200,
    headers: { 'content-type': contentType, 'cache-control': 'no-cache' },
    body,
  };
}

/** Writes an error in OpenAI's format. */
export function errorReply(cause: unknown): Reply {
  const error = asGatewayError(cause);
  const type = error.status >= 500 ? 'server_error' : 'invalid_request_error';
  return jsonReply(
    { error: { message: error.message, type, param: error.param, code: null } },
    error.status,
  );
}

/** Waits between two chunks if the request asks for a delay. */
export async function pause(delayMs: number): Promise<void> {
  if (delayMs > 0) await Bun.sleep(delayMs);
}
