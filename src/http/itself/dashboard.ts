import { notFound } from '../../core/errors.ts';
import type { Exchange } from '../exchange.ts';
import { serviceDocs } from '../openapi/gateway-itself.ts';
import { type Route, routesFor } from '../routes.ts';
import { type Asset, type Assets, dashboardAssets } from './dashboard-assets.ts';
import { pageHeaders } from './page-headers.ts';

/**
 * Nothing inline, nothing from elsewhere: a text that somebody smuggles into the page cannot run.
 * Pictures and sounds that the page makes itself have the scheme `blob:`.
 */
const guards = pageHeaders(
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
);

const yearSeconds = 31_536_000;

const open = routesFor({ access: 'public' });

/** The pages that people look at. Only files: every number in them comes from the API. */
export function dashboardRoutes(): Route[] {
  return [
    open.get('/dashboard', serviceDocs.dashboard, async (exchange) =>
      page(exchange, await dashboardAssets()),
    ),
    open.get('/dashboard/:path{.+}', serviceDocs.dashboardFile, async (exchange) => {
      const assets = await dashboardAssets();
      const path = exchange.param('path');
      if (!path.startsWith('assets/')) return page(exchange, assets);
      const asset = assets.files.get(path.slice('assets/'.length));
      if (!asset) throw notFound('The dashboard has no such file; reload the page.');
      // The name changes with the content, so a copy is good for ever.
      return send(exchange, asset, `public, max-age=${yearSeconds}, immutable`);
    }),
  ];
}

/** One page; which part of it is shown, the browser reads from the address. */
function page(exchange: Exchange, { page: asset }: Assets): Response {
  return send(exchange, asset, 'no-cache');
}

function send(exchange: Exchange, asset: Asset, cacheControl: string): Response {
  const packed = /\bgzip\b/.test(exchange.request.headers.get('accept-encoding') ?? '');
  return new Response(packed ? asset.gzip : asset.bytes, {
    headers: {
      ...exchange.headers,
      'content-type': asset.contentType,
      'cache-control': cacheControl,
      vary: 'accept-encoding',
      ...(packed ? { 'content-encoding': 'gzip' } : {}),
      ...guards,
    },
  });
}
