import { type TProperties, type TSchema, Type } from 'typebox';

/** What OpenAPI says about a route. A schema with a `title` becomes a named component. */
export interface RouteDoc {
  /** A heading of a few words. */
  readonly summary: string;
  /** Full sentences below the heading. */
  readonly details?: string;
  /** A second path for the same route. It is documented, too. */
  readonly alsoAt?: string;
  /** Descriptions of the path parameters, by name. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: TProperties;
  /** Query parameters that are required. */
  readonly queryRequired?: readonly string[];
  readonly body?: ContentDoc;
  /** True if a request without a body is the same as one with an empty object. */
  readonly bodyOptional?: true;
  /** A valid request body. */
  readonly example?: unknown;
  /** The content of each response, by status. */
  readonly responses: Readonly<Record<number, ContentDoc>>;
}

/** Schemas by content type; a schema alone means `application/json`. */
export type ContentDoc = TSchema | { readonly types: Readonly<Record<string, TSchema>> };

export const csv: ContentDoc = {
  types: { 'text/csv': Type.String({ description: 'RFC 4180, with a header row.' }) },
};
export const page: ContentDoc = { types: { 'text/html': Type.String() } };

export function typesOf(content: ContentDoc): Readonly<Record<string, TSchema>> {
  return 'types' in content ? content.types : { 'application/json': content };
}
