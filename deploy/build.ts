/**
 * Builds the single-file executable `dist/tollgate`, which contains Bun, the program, the worker of
 * the embedded database, the catalog, and the dashboard.
 *
 *   npm run build
 *   npm run build -- --target bun-linux-arm64 --outfile dist/tollgate-arm64
 */
import { parseArgs } from 'node:util';
import { packDashboard } from '../src/http/system/dashboard.ts';

const { values } = parseArgs({
  options: {
    target: { type: 'string' },
    outfile: { type: 'string', default: 'dist/tollgate' },
  },
});
const pack = `${values.outfile}-dashboard.pack`;
await Bun.write(pack, await packDashboard());
// At runtime, the worker is found by its path relative to the root.
const args = ['build', '--compile', '--minify', '--root', 'src', '--outfile', values.outfile];
// Don't load a bunfig.toml or .env from the folder in which the executable is run. Both can run code.
args.push('--no-compile-autoload-bunfig', '--no-compile-autoload-dotenv');
const target = values.target ? ['--target', values.target] : [];
const entryPoints = ['src/main.ts', 'src/store/sqlite/worker.ts', pack];
const { exitCode } = Bun.spawnSync([process.execPath, ...args, ...target, ...entryPoints], {
  stdio: ['ignore', 'inherit', 'inherit'],
});
await Bun.file(pack).delete();
process.exit(exitCode);
