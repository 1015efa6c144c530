import { setUpRuntime } from './cli/set-up-runtime.ts';
import { environment } from './config/environment.ts';

/** The command line's door. */
const words = process.argv.slice(2);
setUpRuntime(words, environment);
// Loaded only now: a server replaces itself above, and would load all of it twice.
const { runCommand } = await import('./cli/run.ts');
const { topics } = await import('./cli/topics.ts');
const { world } = await import('./cli/world.ts');
process.exitCode = await runCommand(words, topics, world);
// Connections of clients that never hung up would keep the process alive.
process.exit();
