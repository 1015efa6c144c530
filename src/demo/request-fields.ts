/** Reads request bodies and their fields. `null` counts as absent, as it does at OpenAI. */
import { invalidRequest } from '../core/errors.ts';
import { type Fields, isObject, parseJson } from '../core/json.ts';

/** Bun's own form, which the global `FormData` type does not match. */
export type Form = Awaited<ReturnType<Request['formData']>>;

/** Long enough for a person to watch a stream, or to hang up in the middle of one. */
const delayMsMax = 2_000;

export async function readJsonBody(request: Request): Promise<Fields> {
  const body = parseJson(await request.text());
  if (isObject(body)) return body;
  throw invalidRequest('The request body is not a JSON object.');
}

export async function readForm(request: Request): Promise<Form> {
  try {
    return await request.formData();
  } catch {
    throw invalidRequest('The request body is not valid multipart/form-data.');
  }
}

/** The text fields of a form, so that they can be read like those of a JSON body. */
export function formFields(form: Form): Fields {
  return Object.fromEntries([...form.entries()].filter(([, value]) => typeof value === 'string'));
}

/** The files of a form field, also when a client writes the field as `name[]`. */
export function formFiles(form: Form, name: string): File[] {
  return [...form.getAll(name), ...form.getAll(`${name}[]`)].filter(
    (value) => typeof value !== 'string',
  );
}

export function textField(fields: Fields, name: string): string | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw invalidRequest(`'${name}' must be a string.`, name);
}

export function requiredTextField(fields: Fields, name: string): string {
  const text = textField(fields, name);
  if (text !== undefined && text !== '') return text;
  throw invalidRequest(`'${name}' is required and must not be empty.`, name);
}

export function choiceField<Choice extends string>(
  fields: Fields,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const text = textField(fields, name);
  if (text === undefined) return undefined;
  const choice = choices.find((candidate) => candidate === text);
  if (choice !== undefined) return choice;
  throw invalidRequest(`'${name}' must be one of ${choices.join(', ')}.`, name);
}

/** Numbers written as text are accepted too: that is how forms carry them. */
export function numberField(
  fields: Fields,
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
  fields: Fields,
  name: string,
  min: number,
  max: number,
): number | undefined {
  const number = numberField(fields, name, min, max);
  if (number === undefined || Number.isInteger(number)) return number;
  throw invalidRequest(`'${name}' must be a whole number.`, name);
}

export function flagField(fields: Fields, name: string): boolean {
  const value = fields[name] ?? false;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw invalidRequest(`'${name}' must be true or false.`, name);
}

/** `demo_delay_ms`: how long to wait before each chunk of the answer. */
export function delayField(fields: Fields): number {
  return integerField(fields, 'demo_delay_ms', 0, delayMsMax) ?? 0;
}
