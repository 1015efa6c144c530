import { strict as assert } from 'node:assert';
import type { Scope } from '../core/caller.ts';
import { fieldsOf, isObject, type JsonObject } from '../core/json.ts';
import { type ErrorShape, errorSchemas } from './errors.ts';
import { type ContentDoc, type RouteDoc, typesOf } from './route-doc.ts';

export interface DocumentInfo {
  readonly version: string;
  /** The base URL of this gateway. */
  readonly url: string;
}

type Access = 'public' | 'routing' | 'management' | 'either' | 'admin';

/** The part of a route that the document describes. */
export interface DocumentedRoute {
  readonly method: string;
  /** `:name` is one segment; a final `:name{.+}` is the rest of the path. */
  readonly path: string;
  readonly access: Access;
  readonly scope?: Scope;
  readonly errorShape?: ErrorShape;
  readonly doc?: RouteDoc;
}

/** Builds the OpenAPI 3.1 document of all routes. */
export function openApiDocument(
  routes: readonly DocumentedRoute[],
  { version, url }: DocumentInfo,
): JsonObject {
  const components = new Components();
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const { method, doc } = route;
    if (!doc) continue;
    for (const routePath of [route.path, ...(doc.alsoAt ? [doc.alsoAt] : [])]) {
      const path = routePath.replace(/:(\w+)(?:\{[^}]*\})?/g, '{$1}');
      paths[path] = {
        ...paths[path],
        [method.toLowerCase()]: {
          operationId: operationIdOf(method, routePath),
          ...operation(route, doc, components),
        },
      };
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tollgate',
      version,
      description: 'One HTTP endpoint in front of every model provider, billed in whole credits.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url }],
    tags: [...new Set(routes.map(groupOf))].map((name) => ({ name })),
    paths,
    components: { securitySchemes, schemas: components.schemas },
  };
}

/** The tag of a route: the first segment of its path after the version. */
function groupOf({ path, access }: Pick<DocumentedRoute, 'path' | 'access'>): string {
  const [first = '', second = '', third = ''] = path.split('/').slice(1);
  if (access === 'admin') return 'admin';
  if (first === 'v1') return second;
  if (first === 'api' && second === 'v1') return third;
  return 'service';
}

const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description });
const securitySchemes = {
  routing: bearer('A routing key, sk-tg-…. You can also send it as `x-api-key: …`.'),
  management: bearer('A management key, sk-mgmt-….'),
  admin: bearer('The admin token, sk-admin-….'),
};

const security: Readonly<Record<Access, readonly JsonObject[]>> = {
  public: [],
  routing: [{ routing: [] }],
  management: [{ management: [] }],
  either: [{ routing: [] }, { management: [] }],
  admin: [{ admin: [] }],
};

const operationIdOf = (method: string, path: string) =>
  `${method.toLowerCase()}${path.replace(/\{[^}]*\}/g, '').replace(/\W+/g, '_')}`;

function operation(route: DocumentedRoute, doc: RouteDoc, components: Components): JsonObject {
  const scope = route.scope ? `Requires the scope \`${route.scope}\`.` : '';
  const description = [doc.details ?? '', scope].filter((part) => part !== '').join(' ');
  return {
    summary: doc.summary,
    ...(description ? { description } : {}),
    tags: [groupOf(route)],
    security: security[route.access],
    parameters: parameters(route, doc, components),
    ...(doc.body ? { requestBody: requestBody(doc, doc.body, components) } : {}),
    responses: responses(route, doc, components),
  };
}

function parameters(
  { path }: DocumentedRoute,
  doc: RouteDoc,
  components: Components,
): JsonObject[] {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: doc.path?.[name] ?? '',
    schema: { type: 'string' },
  }));
  const inQuery = Object.entries(doc.query ?? {}).map(([name, schema]) => {
    const { description, ...rest } = components.write(schema);
    const required = doc.queryRequired?.includes(name) ?? false;
    return { name, in: 'query', required, ...(description ? { description } : {}), schema: rest };
  });
  return [...inPath, ...inQuery];
}

function requestBody(
  { example, bodyOptional }: RouteDoc,
  body: ContentDoc,
  components: Components,
): JsonObject {
  const content = Object.entries(typesOf(body)).map(([type, schema], index) => {
    // The example is for the first content type.
    const exampleField = example === undefined || index > 0 ? {} : { example };
    return [type, { schema: components.write(schema), ...exampleField }];
  });
  return { required: bodyOptional !== true, content: Object.fromEntries(content) };
}

const statusDescriptions: Readonly<Record<string, string>> = {
  206: 'The requested range.',
  416: 'The range is outside the file.',
  503: 'Not ready.',
};

function responses(
  route: DocumentedRoute,
  { responses: byStatus }: RouteDoc,
  components: Components,
): JsonObject {
  const successes = Object.entries(byStatus).map(([status, response]) => {
    const content = Object.entries(typesOf(response)).map(([type, schema]) => [
      type,
      { schema: components.write(schema) },
    ]);
    return [
      status,
      {
        description: statusDescriptions[status] ?? 'Success.',
        content: Object.fromEntries(content),
      },
    ];
  });
  const schema = components.write(errorSchemas[route.errorShape ?? 'plain']);
  const errorResponse = { description: 'Error.', content: { 'application/json': { schema } } };
  return { ...Object.fromEntries(successes), default: errorResponse };
}

/** Collects the schemas that have a title and replaces each use with a reference. */
class Components {
  readonly schemas: Record<string, JsonObject> = {};

  write(schema: object): JsonObject {
    const written = this.#inline(schema);
    const { title } = written;
    if (typeof title !== 'string') return written;
    const name = title.replace(/\W+/g, '');
    const known = this.schemas[name];
    const { title: _, ...rest } = written;
    const isIdentical = known === undefined || JSON.stringify(known) === JSON.stringify(rest);
    assert(isIdentical, `Two schemas are called ${name}.`);
    this.schemas[name] = rest;
    return { $ref: `#/components/schemas/${name}` };
  }

  #inline(schema: object): JsonObject {
    const { expected, hidden, ...rest } = schema as JsonObject;
    const written = Object.entries(rest).map(([key, value]) => [key, this.#part(key, value)]);
    return {
      ...Object.fromEntries(written),
      // `expected` describes a pattern in plain text.
      ...(typeof expected === 'string' && !rest.description ? { description: expected } : {}),
      ...(hidden === true ? { writeOnly: true } : {}),
    };
  }

  #part(key: string, value: unknown): unknown {
    if (key === 'properties' || key === 'patternProperties') {
      const fields = Object.entries(fieldsOf(value));
      return Object.fromEntries(fields.map(([name, field]) => [name, this.write(field as object)]));
    }
    if (Array.isArray(value) && ['anyOf', 'allOf', 'oneOf'].includes(key)) {
      return value.map((branch) => this.write(branch));
    }
    const isSchema = key === 'items' || key === 'additionalProperties';
    return isSchema && isObject(value) ? this.write(value) : value;
  }
}
