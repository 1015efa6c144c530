/** Compares real responses with their descriptions in `/openapi.json`. */
import { Compile } from 'typebox/schema';
import { isObject } from '../../src/core/json.ts';

export type Json = Record<string, unknown>;

export const object = (value: unknown): Json => (isObject(value) ? value : {});

export interface Operation {
  /** `GET /v1/jobs/{id}` */
  readonly name: string;
  readonly operation: Json;
}

/** An answer that matches its description. */
export interface CheckedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, or an empty object if it isn't a JSON object. */
  readonly json: Json;
}

/** Returns why a value doesn't match a schema, or an empty array if it does. */
export function schemaErrors(schema: object, value: unknown): unknown[] {
  const compiled = Compile(schema as Parameters<typeof Compile>[0]);
  return compiled.Check(value) ? [] : [...compiled.Errors(value)];
}

export class OpenApiChecker {
  readonly operations: readonly Operation[];
  /** Descriptions that were matched, such as `GET /v1/jobs/{id} 200 application/json`. */
  readonly checkedAnswers = new Set<string>();
  readonly #document: Json;

  constructor(document: Json) {
    this.#document = document;
    this.operations = Object.entries(object(document.paths)).flatMap(([path, methods]) =>
      Object.entries(object(methods)).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path}`,
        operation: object(operation),
      })),
    );
  }

  /** Lists every documented status and content type of every route. Errors are `default`. */
  documentedAnswers(): string[] {
    return this.operations.flatMap(({ name, operation }) =>
      Object.entries(object(operation.responses)).flatMap(([status, answer]) => {
        const types = Object.keys(object(object(answer).content));
        return (types.length > 0 ? types : ['nothing']).map((type) => `${name} ${status} ${type}`);
      }),
    );
  }

  /** Returns a schema with its references replaced by what they refer to. */
  resolveSchema(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((inner) => this.resolveSchema(inner));
    if (!isObject(schema)) return schema;
    const { $ref } = schema;
    if (typeof $ref === 'string') {
      const name = $ref.replace('#/components/schemas/', '');
      return this.resolveSchema(object(object(this.#document.components).schemas)[name]);
    }
    const fields = Object.entries(schema).map(([key, inner]) => [key, this.resolveSchema(inner)]);
    return Object.fromEntries(fields);
  }

  /** Throws unless the answer's status, content type, and body match the description. */
  async check(name: string, response: Response): Promise<CheckedAnswer> {
    const { status, headers } = response;
    const text = await response.text();
    const [type = ''] = (headers.get('content-type') ?? '').split(';');
    const documented = object(this.#operation(name).responses);
    const where = status >= 400 && !(status in documented) ? 'default' : String(status);
    const answer = `${name} ${where}`;
    if (!(where in documented)) throw new Error(`${name} ${status} isn't documented: ${text}`);
    const contents = object(object(documented[where]).content);
    if (Object.keys(contents).length === 0) {
      if (text !== '') throw new Error(`${answer} should have no body, but has: ${text}`);
      this.checkedAnswers.add(`${answer} nothing`);
      return { status, headers, text, json: {} };
    }
    const mediaType = [type, type.replace(/\/.*/, '/*')].find((range) => range in contents);
    if (mediaType === undefined) throw new Error(`${answer} ${type} isn't documented: ${text}`);
    const schema = object(this.resolveSchema(object(contents[mediaType]).schema));
    const isBytes = schema.format === 'binary';
    const values = isBytes ? [text] : valuesOf(type, text);
    const errors = values.flatMap((value) => schemaErrors(schema, value));
    if (errors.length > 0) throw new Error(`${answer}: ${JSON.stringify(errors)} in ${text}`);
    this.checkedAnswers.add(`${answer} ${mediaType}`);
    return { status, headers, text, json: object(values[0]) };
  }

  #operation(name: string): Json {
    const found = this.operations.find((operation) => operation.name === name);
    if (!found) throw new Error(`/openapi.json doesn't describe ${name}.`);
    return found.operation;
  }
}

/** Returns the body's JSON values: one, or one per event of a stream. */
function valuesOf(type: string, text: string): unknown[] {
  if (type === 'application/json') return [JSON.parse(text)];
  if (type !== 'text/event-stream') return [text];
  const events = [...text.matchAll(/^data: (?!\[DONE\])(.*)$/gm)].map(([, data = '']) => data);
  if (events.length === 0) throw new Error(`The stream has no event: ${text}`);
  return events.map((data) => JSON.parse(data) as unknown);
}
