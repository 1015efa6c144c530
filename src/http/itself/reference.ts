import { type DocumentFacts, openApiDocument } from '../openapi/document.ts';
import { serviceDocs } from '../openapi/gateway-itself.ts';
import { docsPage, pagePolicy } from '../openapi/page.ts';
import type { Route } from '../routes.ts';

interface ReferenceParts extends DocumentFacts {
  /** For examples that can be pasted. */
  readonly exampleUrl: string;
  /** Every route there is, these two among them. */
  routes(): readonly Route[];
}

/** The interface for programs and for people, both made of the route table on the first look. */
export function referenceRoutes(parts: ReferenceParts): Route[] {
  let made: { readonly json: string; readonly html: string } | undefined;
  const reference = () => {
    if (made) return made;
    const document = openApiDocument(parts.routes(), parts);
    made = { json: JSON.stringify(document), html: docsPage(document, parts.exampleUrl) };
    return made;
  };
  return [
    {
      method: 'GET',
      path: '/openapi.json',
      doc: serviceDocs.openApi,
      access: 'public',
      handle: ({ headers }) =>
        new Response(reference().json, {
          headers: { ...headers, 'content-type': 'application/json', 'cache-control': 'no-cache' },
        }),
    },
    {
      method: 'GET',
      path: '/docs',
      doc: serviceDocs.reference,
      access: 'public',
      handle: ({ headers }) =>
        new Response(reference().html, {
          headers: {
            ...headers,
            'content-type': 'text/html; charset=utf-8',
            'cache-control': 'no-cache',
            'content-security-policy': pagePolicy,
            'x-content-type-options': 'nosniff',
            'referrer-policy': 'no-referrer',
          },
        }),
    },
  ];
}
