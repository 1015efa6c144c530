import { setUpRuntime } from './cli/set-up-runtime.ts';
import { environment } from './config/environment.ts';

/** The entry point of the command line. */
const words = process.argv.slice(2);
setUpRuntime(words, environment);
// Imported only now: above, a server replaces its own process, and would load all this twice.
const { runCommand } = await import('./cli/run.ts');
const { topics } = await import('./cli/topics.ts');
const { world } = await import('./cli/world.ts');
process.exitCode = await runCommand(words, topics, world);
// Connections of clients that never hung up would keep the process alive.
process.exit();
