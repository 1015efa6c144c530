import { jobDocs } from '../../contract/jobs.ts';
import { GatewayError, notFound } from '../../core/errors.ts';
import { contentTypeOf } from '../../core/stored-object.ts';
import type { StoredObject } from '../../jobs/object-storage.ts';
import type { Exchange } from '../routes.ts';
import { type Route, routesFor } from '../routes.ts';

interface ObjectDeps {
  open(key: string): Promise<StoredObject | undefined>;
  /** Returns false if the object's tenant is disabled. */
  isAvailable(key: string): Promise<boolean>;
  /** Returns true if the query has an unexpired signature for this object. */
  isValidLink(key: string, query: string): boolean;
}

const open = routesFor({ access: 'public' });

/** Downloads of job outputs in the embedded store. The signature of the link replaces a key. */
export function objectRoutes(deps: ObjectDeps): Route[] {
  return [
    open.get('/v1/objects/:key', jobDocs.object, async (exchange) => {
      const key = exchange.param('key');
      const [, query = ''] = exchange.request.url.split('?', 2);
      if (!deps.isValidLink(key, query)) {
        throw new GatewayError(
          'forbidden',
          'This link is invalid or has expired. Get a new one from GET /v1/jobs/{id}.',
        );
      }
      const object = (await deps.isAvailable(key)) ? await deps.open(key) : undefined;
      if (!object) {
        throw notFound(
          'The file that this link points to was deleted or moved, or its account is disabled.',
        );
      }
      return sendObject(exchange, key, object);
    }),
  ];
}

function sendObject(exchange: Exchange, key: string, { bytes, body }: StoredObject): Response {
  const headers: Record<string, string> = {
    ...exchange.headers,
    'content-type': contentTypeOf(key),
    // The file is untrusted, so a browser must not open it as a page of this origin.
    'content-disposition': `attachment; filename="${key}"`,
    'content-security-policy': "default-src 'none'; sandbox",
    'cache-control': 'private, no-store',
    'accept-ranges': 'bytes',
  };
  const requestHeaders = exchange.request.headers;
  // `If-Range` names a version. These files have no version, so send the full file.
  const range = requestHeaders.has('if-range')
    ? undefined
    : readRange(requestHeaders.get('range'), bytes);
  if (range === 'unsatisfiable') {
    headers['content-range'] = `bytes */${bytes}`;
    return new Response(null, { status: 416, headers });
  }
  const [from, to] = range ?? [0, bytes];
  headers['content-length'] = String(to - from);
  if (range) headers['content-range'] = `bytes ${from}-${to - 1}/${bytes}`;
  const status = range ? 206 : 200;
  exchange.responseLength = to - from;
  if (exchange.request.method === 'HEAD') return new Response(null, { status, headers });
  return new Response(range ? body.slice(from, to) : body, { status, headers });
}

/** Reads a single byte range. For any other Range header, the full file is sent. */
function readRange(
  header: string | null,
  bytes: number,
): readonly [number, number] | 'unsatisfiable' | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const from = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const to = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  return from < to ? [from, to] : 'unsatisfiable';
}
