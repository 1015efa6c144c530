import { basename, parse } from 'node:path';
import { systemDocs } from '../../contract/system.ts';
import { notFound } from '../../core/errors.ts';
import { pageHeaders } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';

/**
 * Allows no inline and no third-party content, so that injected text can't run. The page creates
 * its own images and audio as `blob:` URLs.
 */
const securityHeaders = pageHeaders(
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
);

const yearSeconds = 31_536_000;

const open = routesFor({ access: 'public' });

/** Serves the dashboard's static files. The pages read all data from the API. */
export function dashboardRoutes(): Route[] {
  return [
    open.get('/dashboard', systemDocs.dashboard, async (exchange) =>
      sendPage(exchange, await dashboardAssets()),
    ),
    open.get('/dashboard/:path{.+}', systemDocs.dashboardFile, async (exchange) => {
      const assets = await dashboardAssets();
      const path = exchange.param('path');
      if (!path.startsWith('assets/')) return sendPage(exchange, assets);
      const asset = assets.files.get(path.slice('assets/'.length));
      if (!asset) throw notFound("The dashboard doesn't have this file. Reload the page.");
      // The name contains a hash of the content, so a copy never becomes stale.
      return send(exchange, asset, `public, max-age=${yearSeconds}, immutable`);
    }),
  ];
}

/** Every path gets the same page, which reads the path itself. */
function sendPage(exchange: Exchange, { page: asset }: Assets): Response {
  return send(exchange, asset, 'no-cache');
}

function send(exchange: Exchange, asset: Asset, cacheControl: string): Response {
  const acceptsGzip = /\bgzip\b/.test(exchange.request.headers.get('accept-encoding') ?? '');
  return new Response(acceptsGzip ? asset.gzip : asset.bytes, {
    headers: {
      ...exchange.headers,
      'content-type': asset.contentType,
      'cache-control': cacheControl,
      vary: 'accept-encoding',
      ...(acceptsGzip ? { 'content-encoding': 'gzip' } : {}),
      ...securityHeaders,
    },
  });
}

interface Asset {
  readonly contentType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly gzip: Uint8Array<ArrayBuffer>;
}

interface Assets {
  readonly page: Asset;
  /** By name, which contains a hash of the content. */
  readonly files: ReadonlyMap<string, Asset>;
}

/** A file as it is packed into a single executable. `gzip` is base64. */
interface PackedFile {
  readonly name: string;
  readonly contentType: string;
  readonly gzip: string;
}

const pageName = 'index.html';

/** The name that `deploy/build.ts` gives the file in a single executable. */
const packPattern = /-dashboard\b.*\.pack$/;

let cachedAssets: Promise<Assets> | undefined;

/** Builds the assets at the first request and caches them. Retries after a failure. */
export function dashboardAssets(): Promise<Assets> {
  cachedAssets ??= (readEmbedded() ?? buildAssets()).catch((error: unknown) => {
    cachedAssets = undefined;
    throw error;
  });
  return cachedAssets;
}

/** Packs all files into one string, for an executable without sources. */
export async function packDashboard(): Promise<string> {
  const { page, files } = await buildAssets();
  const packed = [[pageName, page] as const, ...files].map(
    ([name, { contentType, gzip }]): PackedFile => ({
      name,
      contentType,
      gzip: gzip.toBase64(),
    }),
  );
  return JSON.stringify(packed);
}

function readEmbedded(): Promise<Assets> | undefined {
  const pack = Bun.embeddedFiles.find((file) => packPattern.test(fileNameOf(file)));
  return pack && unpack(pack);
}

function fileNameOf(file: Blob): string {
  return 'name' in file && typeof file.name === 'string' ? basename(file.name) : '';
}

async function unpack(pack: Blob): Promise<Assets> {
  // Written by packDashboard() above when the executable was built.
  const packed = (await pack.json()) as PackedFile[];
  return toAssets(
    packed.map(({ name, contentType, gzip }) => {
      const bytes = Uint8Array.fromBase64(gzip);
      return [name, { contentType, bytes: Bun.gunzipSync(bytes), gzip: bytes }];
    }),
  );
}

async function buildAssets(): Promise<Assets> {
  const { outputs } = await Bun.build({
    entrypoints: [Bun.fileURLToPath(import.meta.resolve('../../../dashboard/index.html'))],
    // Otherwise Bun also applies the tsconfig of the working directory.
    tsconfig: Bun.fileURLToPath(import.meta.resolve('../../../dashboard/tsconfig.json')),
    target: 'browser',
    minify: true,
    publicPath: '/dashboard/assets/',
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const files = outputs.filter(({ path }) => basename(path) !== pageName);
  let html = (await outputs.find(({ path }) => basename(path) === pageName)?.text()) ?? '';
  const entries: [string, Asset][] = [];
  for (const output of files) {
    const bytes = new Uint8Array(await output.arrayBuffer());
    const name = nameByContent(basename(output.path), bytes);
    // Only the page refers to other files: there is one script and one style sheet.
    html = html.replaceAll(basename(output.path), name);
    entries.push([name, toAsset(bytes, output.type)]);
  }
  const page = toAsset(new TextEncoder().encode(html), 'text/html;charset=utf-8');
  return toAssets([...entries, [pageName, page]]);
}

/**
 * Names a file by the hash of its content. Bun's own hashes depend on the working directory, but a
 * process must be able to serve a file that another process has named in a page.
 */
function nameByContent(name: string, bytes: Uint8Array): string {
  const hash = new Bun.CryptoHasher('sha256').update(bytes).digest('hex').slice(0, 12);
  const { name: stem, ext } = parse(name);
  return `${stem.replace(/-[^-]*$/, '')}-${hash}${ext}`;
}

function toAsset(bytes: Uint8Array<ArrayBuffer>, contentType: string): Asset {
  return { contentType, bytes, gzip: Bun.gzipSync(bytes) };
}

function toAssets(entries: readonly (readonly [string, Asset])[]): Assets {
  const files = new Map(entries);
  const page = files.get(pageName);
  if (!page) throw new Error('The dashboard build has no index.html.');
  files.delete(pageName);
  return { page, files };
}
