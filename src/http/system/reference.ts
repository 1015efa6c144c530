import { type DocumentInfo, openApiDocument } from '../../contract/openapi.ts';
import { systemDocs } from '../../contract/system.ts';
import { pageHeaders } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';
import { docsPage, styleSource } from './reference-page.ts';

interface ReferenceDeps extends DocumentInfo {
  /** The base URL of the curl examples. */
  readonly exampleUrl: string;
  /** All routes, including the two of this file. */
  routes(): readonly Route[];
}

const open = routesFor({ access: 'public' });

/** Serves the API reference as OpenAPI and as a page. Both are built at the first request. */
export function referenceRoutes(deps: ReferenceDeps): Route[] {
  let cached: { readonly json: string; readonly html: string } | undefined;
  const reference = () => {
    if (cached) return cached;
    const document = openApiDocument(deps.routes(), deps);
    cached = { json: JSON.stringify(document), html: docsPage(document, deps.exampleUrl) };
    return cached;
  };
  const send = (
    { headers }: Exchange,
    body: string,
    extraHeaders: Readonly<Record<string, string>>,
  ) =>
    new Response(body, { headers: { ...headers, 'cache-control': 'no-cache', ...extraHeaders } });
  const htmlHeaders = { 'content-type': 'text/html; charset=utf-8', ...pageHeaders(styleSource) };
  return [
    open.get('/openapi.json', systemDocs.openApi, (exchange) =>
      send(exchange, reference().json, { 'content-type': 'application/json' }),
    ),
    open.get('/docs', systemDocs.reference, (exchange) =>
      send(exchange, reference().html, htmlHeaders),
    ),
  ];
}
