/** The answers that `/openapi.json` describes, ready to be compared with real ones. */
import { Compile } from 'typebox/schema';
import { isObject } from '../../src/core/json.ts';

export type Json = Record<string, unknown>;

export const object = (value: unknown): Json => (isObject(value) ? value : {});

export interface Operation {
  /** `GET /v1/jobs/{id}` */
  readonly name: string;
  readonly operation: Json;
}

/** A real answer that matches its description. */
export interface CheckedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, or an empty object when it is no JSON object. */
  readonly json: Json;
}

/** Why a value does not fit; nothing when it does. */
export function schemaErrors(schema: object, value: unknown): unknown[] {
  const compiled = Compile(schema as Parameters<typeof Compile>[0]);
  return compiled.Check(value) ? [] : [...compiled.Errors(value)];
}

export class OpenApiChecker {
  readonly operations: readonly Operation[];
  /**
   * The described answers of which a real one was compared: `GET /v1/jobs/{id} 200
   * application/json`.
   */
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

  /** Every described status and content type of every route; refusals are `default`. */
  documentedAnswers(): string[] {
    return this.operations.flatMap(({ name, operation }) =>
      Object.entries(object(operation.responses)).flatMap(([status, answer]) => {
        const types = Object.keys(object(object(answer).content));
        return (types.length > 0 ? types : ['nothing']).map((type) => `${name} ${status} ${type}`);
      }),
    );
  }

  /** The schema with its references resolved, as a validator needs it. */
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

  /** Fails unless the answer has a status, a content type and a body as described. */
  async check(name: string, response: Response): Promise<CheckedAnswer> {
    const { status, headers } = response;
    const text = await response.text();
    const [type = ''] = (headers.get('content-type') ?? '').split(';');
    const told = object(this.#operation(name).responses);
    const where = status >= 400 && !(status in told) ? 'default' : String(status);
    const answer = `${name} ${where}`;
    if (!(where in told)) throw new Error(`Nothing is said of ${name} ${status}: ${text}`);
    const contents = object(object(told[where]).content);
    if (Object.keys(contents).length === 0) {
      if (text !== '') throw new Error(`${answer} should have no body, and has: ${text}`);
      this.checkedAnswers.add(`${answer} nothing`);
      return { status, headers, text, json: {} };
    }
    const spoken = [type, type.replace(/\/.*/, '/*')].find((one) => one in contents);
    if (spoken === undefined) throw new Error(`Nothing is said of ${answer} ${type}: ${text}`);
    const schema = object(this.resolveSchema(object(contents[spoken]).schema));
    const isBytes = schema.format === 'binary';
    const values = isBytes ? [text] : valuesOf(type, text);
    const wrong = values.flatMap((value) => schemaErrors(schema, value));
    if (wrong.length > 0) throw new Error(`${answer}: ${JSON.stringify(wrong)} in ${text}`);
    this.checkedAnswers.add(`${answer} ${spoken}`);
    return { status, headers, text, json: object(values[0]) };
  }

  #operation(name: string): Json {
    const found = this.operations.find((one) => one.name === name);
    if (!found) throw new Error(`The document does not have ${name}.`);
    return found.operation;
  }
}

/** The JSON values of a body: one, or one for each event of a stream. */
function valuesOf(type: string, text: string): unknown[] {
  if (type === 'application/json') return [JSON.parse(text)];
  if (type !== 'text/event-stream') return [text];
  const events = [...text.matchAll(/^data: (?!\[DONE\])(.*)$/gm)].map(([, data = '']) => data);
  if (events.length === 0) throw new Error(`A stream without an event: ${text}`);
  return events.map((data) => JSON.parse(data) as unknown);
}
