import { basename, parse } from 'node:path';

export interface Asset {
  readonly contentType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly gzip: Uint8Array<ArrayBuffer>;
}

export interface Assets {
  readonly page: Asset;
  /** By name; each name holds a hash of the content. */
  readonly files: ReadonlyMap<string, Asset>;
}

/** One file as it is packed into a single executable: base64 of its gzip form. */
interface PackedFile {
  readonly name: string;
  readonly contentType: string;
  readonly gzip: string;
}

const pageName = 'index.html';

/** How `deploy/build.ts` names the file that a single executable carries. */
const packName = /-dashboard\b.*\.pack$/;

let assets: Promise<Assets> | undefined;

/** Made at the first request, which takes a moment, and kept. After a failure it is tried again. */
export function dashboardAssets(): Promise<Assets> {
  assets ??= (embedded() ?? built()).catch((thrown: unknown) => {
    assets = undefined;
    throw thrown;
  });
  return assets;
}

/** Everything in one text, for an executable that has no sources beside it. */
export async function packDashboard(): Promise<string> {
  const { page, files } = await built();
  const packed = [[pageName, page] as const, ...files].map(
    ([name, { contentType, gzip }]): PackedFile => ({
      name,
      contentType,
      gzip: gzip.toBase64(),
    }),
  );
  return JSON.stringify(packed);
}

function embedded(): Promise<Assets> | undefined {
  const pack = Bun.embeddedFiles.find((file) => packName.test(nameOf(file)));
  return pack && unpack(pack);
}

function nameOf(file: Blob): string {
  return 'name' in file && typeof file.name === 'string' ? basename(file.name) : '';
}

async function unpack(pack: Blob): Promise<Assets> {
  // Written by packDashboard() above when the executable was made.
  const packed = (await pack.json()) as PackedFile[];
  return sorted(
    packed.map(({ name, contentType, gzip }) => {
      const bytes = Uint8Array.fromBase64(gzip);
      return [name, { contentType, bytes: Bun.gunzipSync(bytes), gzip: bytes }];
    }),
  );
}

async function built(): Promise<Assets> {
  const { outputs } = await Bun.build({
    entrypoints: [Bun.fileURLToPath(import.meta.resolve('../../../dashboard/index.html'))],
    // Otherwise the one of the folder in which the process was started counts, too.
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
    // Only the page names other files: everything else is in one script and one sheet.
    html = html.replaceAll(basename(output.path), name);
    entries.push([name, assetOf(bytes, output.type)]);
  }
  const page = assetOf(new TextEncoder().encode(html), 'text/html;charset=utf-8');
  return sorted([...entries, [pageName, page]]);
}

/**
 * The bundler's own hashes depend on the folder in which the process was started, but the file that
 * one process names may be asked of another.
 */
function nameByContent(name: string, bytes: Uint8Array): string {
  const hash = new Bun.CryptoHasher('sha256').update(bytes).digest('hex').slice(0, 12);
  const { name: stem, ext } = parse(name);
  return `${stem.replace(/-[^-]*$/, '')}-${hash}${ext}`;
}

function assetOf(bytes: Uint8Array<ArrayBuffer>, contentType: string): Asset {
  return { contentType, bytes, gzip: Bun.gzipSync(bytes) };
}

function sorted(entries: readonly (readonly [string, Asset])[]): Assets {
  const files = new Map(entries);
  const page = files.get(pageName);
  if (!page) throw new Error('The dashboard was built without its page.');
  files.delete(pageName);
  return { page, files };
}
