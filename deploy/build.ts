/**
 * Makes the single-file executable `dist/tollgate`: the runtime, the program, its thread for the
 * embedded database, the catalogue and the dashboard. It needs nothing beside it to run.
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
// The worker is found by its place below the root.
const words = ['build', '--compile', '--minify', '--root', 'src', '--outfile', values.outfile];
// The folder it is called from may be a project with a bunfig.toml: that one is not for us.
words.push('--no-compile-autoload-bunfig');
const target = values.target ? ['--target', values.target] : [];
const parts = ['src/main.ts', 'src/store/sqlite/worker.ts', pack];
const { exitCode } = Bun.spawnSync([process.execPath, ...words, ...target, ...parts], {
  stdio: ['ignore', 'inherit', 'inherit'],
});
await Bun.file(pack).delete();
process.exit(exitCode);
