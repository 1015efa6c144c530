import { type TProperties, type TSchema, Type } from 'typebox';
import { definedFields } from '../core/json.ts';
import { oneOf } from '../core/schema.ts';

/**
 * What the reference says about a route. A schema with a `title` is written once, under that name.
 */
export interface RouteDoc {
  /** A few words, as a heading. */
  readonly summary: string;
  /** Sentences for whoever reads on. */
  readonly details?: string;
  /** A second path of the route that clients know it by; it is described there as well. */
  readonly alsoAt?: string;
  /** What the variable parts of the path stand for. */
  readonly path?: Readonly<Record<string, string>>;
  /** The query parameters. */
  readonly query?: TProperties;
  /** The query parameters that must be there. */
  readonly queryRequired?: readonly string[];
  readonly body?: ContentDoc;
  /** A body that works, for the example. */
  readonly example?: unknown;
  /** By status. */
  readonly answers: Readonly<Record<number, ContentDoc>>;
}

/** By content type; a schema alone means JSON. */
export type ContentDoc = TSchema | { readonly types: Readonly<Record<string, TSchema>> };

/** The words that many records share. */
export const credits = (description = 'Whole credits.') => Type.Integer({ description });
export const count = (description?: string) =>
  Type.Integer({ minimum: 0, ...definedFields({ description }) });
export const text = (description?: string) => Type.String(definedFields({ description }));
export const time = (description = 'UTC.') => Type.String({ format: 'date-time', description });
export const file = (description?: string) =>
  Type.String({ format: 'binary', ...definedFields({ description }) });
export const trafficMode = oneOf('shared', 'byok');

/** A record of ours: all fields are always there, and no others. */
export function record<P extends TProperties>(title: string, properties: P, description?: string) {
  return Type.Object(properties, {
    title,
    additionalProperties: false,
    ...definedFields({ description }),
  });
}

/** A record without a name of its own: a part of another, or a wrapper around one. */
export function inlineRecord<P extends TProperties>(properties: P) {
  return Type.Object(properties, { additionalProperties: false });
}

/** Sentences take their bounds from the code. */
export const megabytes = (bytes: number) => `${bytes / 2 ** 20} MB`;

/** A body: the very schema that validates it, with a name. */
export const named = (title: string, schema: TSchema): TSchema => ({ ...schema, title });

/** A body that brings files, by its content type. */
export const form = (title: string, fields: TProperties) => ({
  'multipart/form-data': Type.Object(fields, { title }),
});

/** Most answers wrap their content in `data`. */
export const data = <S extends TSchema>(schema: S) => inlineRecord({ data: schema });

export const deleted = inlineRecord({ deleted: Type.Literal(true) });

export const csv: ContentDoc = {
  types: { 'text/csv': Type.String({ description: 'RFC 4180, with a first row of names.' }) },
};
export const page: ContentDoc = { types: { 'text/html': Type.String() } };

export function typesOf(content: ContentDoc): Readonly<Record<string, TSchema>> {
  return 'types' in content ? content.types : { 'application/json': content };
}
