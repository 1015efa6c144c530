import { setUpRuntime } from './cli/program.ts';
import { environment } from './config/environment.ts';

/** The entry point of the command line. */
const args = process.argv.slice(2);
setUpRuntime(args, environment);
// Imported only now: above, a server replaces its own process, and would load all this twice.
const { runCommand } = await import('./cli/run.ts');
const { topics } = await import('./cli/topics.ts');
const { commandEnvironment: cliEnvironment } = await import('./cli/process.ts');
process.exitCode = await runCommand(args, topics, cliEnvironment);
// Connections of clients that never hung up would keep the process alive.
process.exit();
