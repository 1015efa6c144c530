import type { Exchange } from '../exchange.ts';
import { type DocumentFacts, openApiDocument } from '../openapi/document.ts';
import { serviceDocs } from '../openapi/gateway-itself.ts';
import { docsPage, styleSource } from '../openapi/page.ts';
import { type Route, routesFor } from '../routes.ts';
import { pageHeaders } from './page-headers.ts';

interface ReferenceParts extends DocumentFacts {
  /** For examples that can be pasted. */
  readonly exampleUrl: string;
  /** All routes, including the two of this file. */
  routes(): readonly Route[];
}

const open = routesFor({ access: 'public' });

/**
 * The interface for programs and for people, both made from the route table at the first request.
 */
export function referenceRoutes(parts: ReferenceParts): Route[] {
  let made: { readonly json: string; readonly html: string } | undefined;
  const reference = () => {
    if (made) return made;
    const document = openApiDocument(parts.routes(), parts);
    made = { json: JSON.stringify(document), html: docsPage(document, parts.exampleUrl) };
    return made;
  };
  const reply = ({ headers }: Exchange, body: string, about: Readonly<Record<string, string>>) =>
    new Response(body, { headers: { ...headers, 'cache-control': 'no-cache', ...about } });
  const page = { 'content-type': 'text/html; charset=utf-8', ...pageHeaders(styleSource) };
  return [
    open.get('/openapi.json', serviceDocs.openApi, (exchange) =>
      reply(exchange, reference().json, { 'content-type': 'application/json' }),
    ),
    open.get('/docs', serviceDocs.reference, (exchange) => reply(exchange, reference().html, page)),
  ];
}
