/** Validates values with a `type` against the schema of that type. */
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/schema';
import { validationError } from '../../../core/schema.ts';

/** A value that matches one of the schemas. */
export type OneOf<Schemas extends Readonly<Record<string, TSchema>>> = {
  [Type in keyof Schemas]: Static<Schemas[Type]>;
}[keyof Schemas];

export class SchemasByType {
  readonly #kinds = new Map<string, { schema: TSchema; matches(value: unknown): boolean }>();

  constructor(schemas: Readonly<Record<string, TSchema>>) {
    for (const [type, schema] of Object.entries(schemas)) {
      const compiled = Compile(schema);
      this.#kinds.set(type, { schema, matches: (value) => compiled.Check(value) });
    }
  }

  has(type: string): boolean {
    return this.#kinds.has(type);
  }

  /** Throws 400 if a value doesn't match the schema of its type. Unknown types aren't checked. */
  check(type: string, value: unknown, path: string): void {
    const kind = this.#kinds.get(type);
    if (kind && !kind.matches(value)) throw validationError(kind.schema, value, path);
  }
}
