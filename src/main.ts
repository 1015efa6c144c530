import { runCommand } from './cli/run.ts';
import { setUpRuntime } from './cli/set-up-runtime.ts';
import { topics } from './cli/topics.ts';
import { world } from './cli/world.ts';
import { environment } from './config/environment.ts';

/** The command line's door. */
const words = process.argv.slice(2);
setUpRuntime(words, environment);
process.exitCode = await runCommand(words, topics, world);
// Connections of clients that never hung up would keep the process alive.
process.exit();
