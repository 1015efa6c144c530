import { type DocumentInfo, openApiDocument } from '../../contract/openapi.ts';
import { systemDocs } from '../../contract/system.ts';
import { pageHeaders } from '../reply.ts';
import type { Exchange } from '../routes.ts';
import { type Route, routesFor } from '../routes.ts';
import { docsPage, styleSource } from './reference-page.ts';

interface ReferenceDeps extends DocumentInfo {
  /** For examples that can be pasted. */
  readonly exampleUrl: string;
  /** All routes, including the two of this file. */
  routes(): readonly Route[];
}

const open = routesFor({ access: 'public' });

/**
 * The interface for programs and for people, both made from the route table at the first request.
 */
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
